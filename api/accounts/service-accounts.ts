import { z } from 'zod'
import { list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { addKey, revokeKey, rotateKeys } from '../../store/postgres/accounts/key-admin.ts'
import { insertServiceAccount } from '../../store/postgres/accounts/service-accounts.ts'
import { findOrganizationName, removeUser } from '../../store/postgres/accounts/users.ts'
import { type Database, isUniqueViolation } from '../../store/postgres/database.ts'
import { keyFields, toKeyFields } from './key-fields.ts'
import { roleField, workspaceName } from './workspaces.ts'

const topic = 'Service accounts'

const authorizedMax = 10_000

export const userName = text(100, 1)
const accountParams = object({ accountName: userName })
const apiKeyAnswer = z.string().describe('shown only once: the service stores its hash')

const recordAnswer = z.object({
  apiKey: apiKeyAnswer,
  authorizedWorkspaces: z.array(z.string()).nullable().describe('null when it may use every workspace'),
  createdAt: z.int().describe('ms since the Unix epoch'),
  createdBy: z.string(),
  defaultWorkspaceName: z.string(),
  deleted: z.boolean(),
  hasGlobalAccess: z.boolean(),
  lastActivityAt: z.int().describe('ms since the Unix epoch'),
  name: z.string(),
  organizationId: z.uuid(),
})

/** Service accounts and their keys. */
export function createServiceAccountRoutes({ database }: { database: Database }): Route[] {
  const create = route({
    method: 'POST',
    path: '/write/service-account',
    charge: 'call',
    permission: 'admin',
    topic,
    summary:
      'Creates a service account with its first key. It may use every workspace of the organization, or only those in ' +
      '`authorizedWorkspaces`; `teamName` is its default workspace. It is an editor of each, or has the `role` that is given.',
    body: object({
      name: userName,
      teamName: workspaceName,
      organizationName: text(200, 1),
      authorizedWorkspaces: optional(list(workspaceName, authorizedMax)),
      role: optional(roleField),
    }),
    answer: recordAnswer,
    shape: 'envelope',
    async handle({ body, caller, reply }) {
      const { name, teamName, organizationName, authorizedWorkspaces, role } = body
      const { organizationId } = caller
      if ((await findOrganizationName(database, organizationId)) !== organizationName) {
        throw new HttpError(
          'organizationUnknown',
          'organizationName: there is no such organization that this key administers; GET /admin/users tells its name',
        )
      }
      const account = { name, defaultWorkspaceName: teamName, authorizedWorkspaces, role }
      const made = await insertServiceAccount(database, caller, account).catch((error: unknown) => {
        throw isUniqueViolation(error) ? nameTaken('name', name) : error
      })
      if ('missingWorkspace' in made) throw missingWorkspace(made.missingWorkspace, authorizedWorkspaces)
      const createdAt = Math.floor(made.createdAtMs)
      reply.header('cache-control', 'no-store')
      return {
        msg: 'Service account created',
        apiKey: made.apiKey,
        authorizedWorkspaces: authorizedWorkspaces ? [...new Set(authorizedWorkspaces)] : null,
        createdAt,
        createdBy: caller.userName,
        defaultWorkspaceName: teamName,
        deleted: false,
        hasGlobalAccess: authorizedWorkspaces === undefined,
        lastActivityAt: createdAt,
        name,
        organizationId,
      }
    },
  })

  const createKey = route({
    method: 'POST',
    path: '/write/service-account/{accountName}/create-api-key',
    charge: 'call',
    permission: 'admin',
    topic,
    summary: 'Creates another key for a service account.',
    params: accountParams,
    body: object(keyFields),
    mayLackBody: true,
    answer: z.object({
      apiKey: apiKeyAnswer,
      createdAt: z.number().describe('ms since the Unix epoch, with a fractional part'),
    }),
    shape: 'envelope',
    async handle({ params, body, caller, reply }) {
      const fields = await toKeyFields(database, caller.organizationId, body)
      const made = await addKey(database, caller, toReference(params.accountName), fields)
      if (!made) throw unknownAccount('accountName', params.accountName)
      reply.header('cache-control', 'no-store')
      return { apiKey: made.apiKey, createdAt: withFraction(made.createdAtMs) }
    },
  })

  const deleteKey = route({
    method: 'POST',
    path: '/write/service-account/{accountName}/delete-api-key',
    charge: 'call',
    permission: 'admin',
    topic,
    summary: 'Revokes a key of a service account. Every process rejects it within a second.',
    params: accountParams,
    body: object({ apiKey: text(1_000, 1) }),
    answer: z.object({ msg: z.string() }),
    shape: 'envelope',
    async handle({ params, body, caller }) {
      const { accountName } = params
      const outcome = await revokeKey(database, caller, toReference(accountName), body.apiKey)
      if (outcome === 'userUnknown') throw unknownAccount('accountName', accountName)
      if (outcome === 'keyUnknown') {
        throw new HttpError('apiKeyUnknown', `apiKey: the service account "${accountName}" has no such key`)
      }
      return { msg: 'Deleted' }
    },
  })

  const remove = route({
    method: 'DELETE',
    path: '/write/service-account/{accountName}',
    charge: 'call',
    permission: 'admin',
    topic,
    summary: 'Deletes a service account and revokes its keys. What it created stays.',
    params: accountParams,
    answer: z.object({ msg: z.string() }),
    shape: 'envelope',
    async handle({ params, caller }) {
      const outcome = await removeUser(database, caller, toReference(params.accountName))
      if (outcome !== 'done') throw unknownAccount('accountName', params.accountName)
      return { msg: 'Deleted' }
    },
  })

  const rotate = route({
    method: 'GET',
    path: '/write/api/rotate',
    charge: 'call',
    permission: 'admin',
    topic,
    summary:
      'Creates a new key for a service account and revokes all its other keys. With create-api-key and delete-api-key ' +
      'instead, the old key works until the new one is in use.',
    query: object({ userName }),
    answer: z.object({ apiKey: apiKeyAnswer }),
    shape: 'envelope',
    async handle({ query, caller, reply }) {
      const made = await rotateKeys(database, caller, toReference(query.userName))
      if (!made) throw unknownAccount('userName', query.userName)
      reply.header('cache-control', 'no-store')
      return { apiKey: made.apiKey }
    },
  })

  return [create, createKey, deleteKey, remove, rotate]
}

const toReference = (userName: string) => ({ userName, isService: true })

/** Clients expect a number with a fraction here, so at least one microsecond is added to a whole number. */
function withFraction(timeMs: number): number {
  return Number.isInteger(timeMs) ? timeMs + 0.001 : timeMs
}

function unknownAccount(field: string, name: string): HttpError {
  return new HttpError('accountUnknown', `${field}: your organization has no service account "${name}"`)
}

export function nameTaken(field: string, name: string): HttpError {
  return new HttpError(
    'userExists',
    `${field}: your organization has a user or service account "${name}" already; choose another name`,
  )
}

function missingWorkspace(name: string, authorized: string[] = []): HttpError {
  const index = authorized.indexOf(name)
  const field = index < 0 ? 'teamName' : `authorizedWorkspaces[${index}]`
  return new HttpError('workspaceUnknown', `${field}: your organization has no workspace "${name}"`)
}
