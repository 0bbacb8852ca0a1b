import { z } from 'zod'
import { flag, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { addKey, revokeKeyById } from '../../store/postgres/accounts/key-admin.ts'
import {
  findOrganizationName,
  insertUser,
  type ListedUser,
  listUsers,
  organizationRoles,
  removeUser,
  setOrganizationRole,
  shownKinds,
} from '../../store/postgres/accounts/users.ts'
import { roles } from '../../store/postgres/accounts/visibility.ts'
import { type Database, isUniqueViolation } from '../../store/postgres/database.ts'
import { keyFields, toKeyFields } from './key-fields.ts'
import { nameTaken, userName } from './service-accounts.ts'
import { workspaceName } from './workspaces.ts'

const topic = 'Administration'

const msgAnswer = z.object({ msg: z.string() })
const timeMs = z.int().describe('ms since the Unix epoch')

const organizationRole = z.enum(organizationRoles, { error: () => `must be one of ${organizationRoles.join(', ')}` })

const toRole = (isAdmin: boolean) => (isAdmin ? 'admin' : 'member')

const userAnswer = z.object({
  userName: z.string(),
  kind: z.enum(['user', 'service account']),
  role: z.enum(organizationRoles),
  isAdmin: z.boolean(),
  workspaceRole: z
    .enum(roles)
    .nullable()
    .describe('of a service account for all of the organization: its role in each workspace'),
  defaultWorkspaceName: z.string().nullable(),
  authorizedWorkspaces: z.array(z.string()).nullable().describe('of a restricted service account'),
  provider: z.string().nullable().describe('of single sign-on, where the user signs in; null when nowhere'),
  isSuspended: z
    .boolean()
    .describe('true when the provider does not confirm the user any more: keys work again with the next sign-in'),
  createdAt: timeMs,
  lastActivityAt: timeMs.nullable(),
})

/** The users of an organization, and keys. */
export function createUserRoutes({ database }: { database: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/admin/users',
      permission: 'auditor',
      topic,
      summary: 'Lists the users and service accounts of the organization, with its name and id.',
      answer: z.object({ organizationId: z.uuid(), organizationName: z.string(), users: z.array(userAnswer) }),
      shape: 'plain',
      async handle({ caller: { organizationId } }) {
        const organizationName = await findOrganizationName(database, organizationId)
        const users = await listUsers(database, organizationId)
        return { organizationId, organizationName, users: users.map(toAnswer) }
      },
    }),

    route({
      method: 'POST',
      path: '/admin/users',
      charge: 'call',
      permission: 'admin',
      topic,
      summary:
        'Creates a user, as an admin or auditor by `role`, or as an admin when `isAdmin` is true. `workspaceName` becomes the default workspace and is created ' +
        'if it does not exist. Without it, a workspace with the name of the user is created.',
      body: object({
        userName,
        isAdmin: optional(flag),
        role: optional(organizationRole),
        workspaceName: optional(workspaceName),
      }),
      answer: z.object({ msg: z.string(), userName: z.string(), defaultWorkspaceName: z.string() }),
      shape: 'envelope',
      async handle({ body: { userName, isAdmin = false, role = toRole(isAdmin), workspaceName }, caller }) {
        const made = await insertUser(database, caller, { userName, role, workspaceName }).catch((error: unknown) => {
          throw isUniqueViolation(error) ? nameTaken('userName', userName) : error
        })
        if (!made) {
          throw new HttpError(
            'workspaceExists',
            `workspaceName: there is a workspace "${userName}" already; name it to make the user a member, or another one`,
          )
        }
        return { msg: 'User created', userName, defaultWorkspaceName: made.defaultWorkspaceName }
      },
    }),

    route({
      method: 'PUT',
      path: '/admin/users/{userName}',
      charge: 'call',
      permission: 'admin',
      topic,
      summary:
        'Sets the role of a user in the organization: `role`, or else `isAdmin`, which makes an admin or a member. An ' +
        'organization always keeps at least one admin.',
      params: object({ userName }),
      body: object({ isAdmin: optional(flag), role: optional(organizationRole) }),
      answer: msgAnswer,
      shape: 'envelope',
      async handle({ params, body, caller }) {
        const { isAdmin, role = isAdmin === undefined ? undefined : toRole(isAdmin) } = body
        if (role === undefined) throw new HttpError('badRequest', 'isAdmin: is missing')
        requireDone(await setOrganizationRole(database, caller, params.userName, role), params.userName)
        return { msg: 'Saved' }
      },
    }),

    route({
      method: 'DELETE',
      path: '/admin/users/{userName}',
      charge: 'call',
      permission: 'admin',
      topic,
      summary:
        'Deletes a user and revokes its keys. What the user created stays under its name. The caller becomes the owner of ' +
        'workspaces that would have none.',
      params: object({ userName }),
      answer: msgAnswer,
      shape: 'envelope',
      async handle({ params, caller }) {
        const reference = { userName: params.userName, isService: false }
        requireDone(await removeUser(database, caller, reference), params.userName)
        return { msg: 'Deleted' }
      },
    }),

    route({
      method: 'POST',
      path: '/admin/users/keys',
      charge: 'call',
      permission: 'admin',
      topic,
      summary: 'Creates another key for a user.',
      body: object({ userName, ...keyFields }),
      answer: z.object({
        apiKey: z.string().describe('shown only once: the service stores its hash'),
        keyId: z.uuid(),
        createdAt: timeMs,
      }),
      shape: 'envelope',
      async handle({ body, caller, reply }) {
        const fields = await toKeyFields(database, caller.organizationId, body)
        const made = await addKey(database, caller, { userName: body.userName, isService: false }, fields)
        if (!made) throw unknownUser(body.userName)
        reply.header('cache-control', 'no-store')
        return { apiKey: made.apiKey, keyId: made.keyId, createdAt: Math.floor(made.createdAtMs) }
      },
    }),

    route({
      method: 'DELETE',
      path: '/admin/keys/{keyId}',
      charge: 'call',
      permission: 'admin',
      topic,
      summary: 'Revokes any key of the organization. Every process rejects it within a second.',
      params: object({ keyId: text(100, 1) }),
      answer: msgAnswer,
      shape: 'envelope',
      async handle({ params, caller }) {
        const wasThere = await revokeKeyById(database, caller, params.keyId)
        if (!wasThere) {
          throw new HttpError('apiKeyUnknown', 'keyId: your organization has no such key; see GET /admin/keys')
        }
        return { msg: 'Deleted' }
      },
    }),
  ]
}

function toAnswer({ kind, createdAtMs, lastActiveAtMs, ...user }: ListedUser): z.input<typeof userAnswer> {
  return {
    ...user,
    isAdmin: user.role === 'admin',
    kind: shownKinds[kind],
    createdAt: Math.floor(createdAtMs),
    lastActivityAt: lastActiveAtMs === null ? null : Number(lastActiveAtMs),
  }
}

function unknownUser(userName: string): HttpError {
  return new HttpError('userUnknown', `userName: your organization has no user "${userName}"`)
}

function requireDone(outcome: 'done' | 'unknown' | 'lastAdmin', userName: string) {
  if (outcome === 'unknown') throw unknownUser(userName)
  if (outcome === 'lastAdmin') {
    throw new HttpError('lastAdmin', `userName: "${userName}" is the only admin; make somebody else an admin first`)
  }
}
