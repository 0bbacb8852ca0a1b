import { z } from 'zod'
import { list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { allowSecret, listSecretNames, type Secrets, WrongMasterKey } from '../../store/postgres/accounts/secrets.ts'
import type { Database } from '../../store/postgres/database.ts'
import { workspaceName } from './workspaces.ts'

const topic = 'Organization secrets'

/** Longer than any header that a webhook could send it in. */
const valueCharactersMax = 8_000

const organizationId = text(100, 1)
const secretName = text(200, 1)
const workspacesMax = 10_000
const done = z.literal('200 Ok')

/** Secrets that webhooks use by name. They can be written and their names listed, but no value is ever read. */
export function createSecretRoutes({
  database,
  secrets,
}: {
  database: Database
  secrets: Secrets | undefined
}): Route[] {
  function requireSecrets(): Secrets {
    if (secrets) return secrets
    throw new HttpError('secretsOff', 'Secrets cannot be kept: the service was started without SVC_MASTER_KEY.')
  }

  return [
    route({
      method: 'GET',
      path: '/organization/{organizationId}/secrets',
      permission: 'auditor',
      topic,
      summary:
        'Lists the names of the secrets, when each was last set, and which workspaces may name it in webhooks. Values are ' +
        'never told.',
      params: object({ organizationId }),
      answer: z.object({
        secrets: z.array(
          z.object({
            secretName: z.string(),
            updatedAt: z.int().describe('ms since the Unix epoch'),
            workspaceNames: z.array(z.string()).nullable().describe('null for all workspaces'),
          }),
        ),
      }),
      shape: 'plain',
      async handle({ params, caller }) {
        requireOwn(caller, params.organizationId)
        const found = await listSecretNames(database, caller.organizationId)
        return {
          secrets: found.map(({ name, updatedAt, workspaceNames }) => ({
            secretName: name,
            updatedAt: updatedAt.getTime(),
            workspaceNames,
          })),
        }
      },
    }),

    route({
      method: 'PUT',
      path: '/write/organization/{organizationId}/secrets',
      charge: 'call',
      permission: 'admin',
      topic,
      summary: 'Adds a secret that webhooks can use by its name, or replaces its value.',
      params: object({ organizationId }),
      body: object({ secretName, secretValue: text(valueCharactersMax, 1) }),
      answer: done,
      shape: 'text',
      async handle({ params, body, caller }) {
        requireOwn(caller, params.organizationId)
        await requireSecrets().put(caller, body.secretName, body.secretValue).catch(refuseWrongKey)
        return '200 Ok' as const
      },
    }),

    route({
      method: 'PUT',
      path: '/write/organization/{organizationId}/secrets/{secretName}/workspaces',
      charge: 'call',
      permission: 'admin',
      topic,
      summary:
        'Sets which workspaces may name a secret in their webhooks. Without it, all may. Webhooks of other workspaces that ' +
        'name it fail from then on.',
      params: object({ organizationId, secretName }),
      body: object({
        workspaceNames: optional(list(workspaceName, workspacesMax)).describe('absent or null: all workspaces'),
      }),
      answer: done,
      shape: 'text',
      async handle({ params, body: { workspaceNames }, caller }) {
        requireOwn(caller, params.organizationId)
        const outcome = await allowSecret(database, caller, params.secretName, workspaceNames ?? null)
        if (outcome === 'unknown') throw unknownSecret(params.secretName)
        if (outcome !== 'done') {
          throw new HttpError(
            'workspaceUnknown',
            `workspaceNames: your organization has no workspace "${outcome.missingWorkspace}"`,
          )
        }
        return '200 Ok' as const
      },
    }),

    route({
      method: 'DELETE',
      path: '/write/organization/{organizationId}/secrets/{secretName}',
      charge: 'call',
      permission: 'admin',
      topic,
      summary: 'Deletes a secret.',
      params: object({ organizationId, secretName }),
      answer: done,
      shape: 'text',
      async handle({ params, caller }) {
        requireOwn(caller, params.organizationId)
        const wasThere = await requireSecrets().remove(caller, params.secretName)
        if (!wasThere) throw unknownSecret(params.secretName)
        return '200 Ok' as const
      },
    }),
  ]
}

const unknownSecret = (name: string) => new HttpError('secretUnknown', `secretName: there is no secret "${name}"`)

/** The master key was replaced after this process started. */
function refuseWrongKey(error: unknown): never {
  if (!(error instanceof WrongMasterKey)) throw error
  throw new HttpError(
    'secretsOff',
    'Secrets cannot be kept: the service was started with a master key that is not in use.',
  )
}

/** Absent and foreign organizations get the same answer. */
function requireOwn(caller: Caller, organizationId: string) {
  if (organizationId.toLowerCase() === caller.organizationId) return
  throw new HttpError(
    'organizationUnknown',
    'organizationId: there is no such organization that this key administers; GET /admin/users tells its id',
  )
}
