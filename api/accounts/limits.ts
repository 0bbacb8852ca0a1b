import { z } from 'zod'
import { flag, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { type GivenLimits, limitNames, tenantLimitNames } from '../../store/limits.ts'
import { listKeys } from '../../store/postgres/accounts/keys.ts'
import { findLimits, type LimitTarget, setLimits } from '../../store/postgres/accounts/limits.ts'
import { shownKinds } from '../../store/postgres/accounts/users.ts'
import type { Database } from '../../store/postgres/database.ts'
import { projectQuery } from '../projects/projects.ts'
import { keyAnswer, toKeyAnswer } from './key-fields.ts'

const topic = 'Administration'

/** The value of a limit; null removes it. */
const limit = z.int('expected an integer').min(1, 'must be 1 or more').nullish()

const allNames = [...limitNames, ...tenantLimitNames] as const

const givenLimits = z.strictObject(
  Object.fromEntries(allNames.map((name) => [name, limit])) as Record<(typeof allNames)[number], typeof limit>,
  {
    error: ({ code }) =>
      code === 'unrecognized_keys' ? `there are only ${allNames.join(', ')}` : 'expected an object of limits',
  },
)

const targetFields = object({
  ...projectQuery.shape,
  keyId: optional(text(100, 1)),
  organization: optional(flag).describe('true: the organization of the caller, all of its workspaces together'),
})

const givenAnswer = z
  .partialRecord(z.enum(allNames), z.int())
  .describe('the limits set here; absent ones are inherited')

const limitsAnswer = z.object({ limits: givenAnswer })

/** Limits that override the settings, and the list of keys. */
export function createLimitRoutes({ database }: { database: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/admin/limits',
      permission: 'auditor',
      topic,
      summary: 'Reads the limits set for the organization, a workspace, a project or a key.',
      query: targetFields,
      answer: limitsAnswer,
      shape: 'plain',
      async handle({ query, caller }) {
        const target = toTarget(query)
        return { limits: requireTarget(await findLimits(database, own(caller, target)), target) }
      },
    }),

    route({
      method: 'PUT',
      path: '/admin/limits',
      charge: 'call',
      permission: 'admin',
      topic,
      summary:
        'Sets limits for every experiment of a workspace or a project, or for a key; null removes a limit. Limits of a ' +
        'project override those of its workspace. They apply within 10 seconds, those of a key within one. ' +
        `${tenantLimitNames.join(', ')} hold for all of a workspace together, or for all of the organization.`,
      body: object({ ...targetFields.shape, limits: givenLimits }),
      answer: limitsAnswer,
      shape: 'envelope',
      async handle({ body: { limits, ...named }, caller }) {
        const target = toTarget(named)
        refuseUnfit(target, limits)
        return { limits: requireTarget(await setLimits(database, caller, target, limits), target) }
      },
    }),

    route({
      method: 'GET',
      path: '/admin/keys',
      permission: 'auditor',
      topic,
      summary: 'Lists the API keys of the organization. Only the beginning of each key is shown.',
      answer: z.object({
        keys: z.array(
          z.object({
            ...keyAnswer,
            userName: z.string(),
            kind: z.enum(['user', 'service account']),
            limits: givenAnswer,
          }),
        ),
      }),
      shape: 'plain',
      async handle({ caller }) {
        const keys = await listKeys(database, caller.organizationId)
        return {
          keys: keys.map(({ kind, ...key }) => ({ ...toKeyAnswer(key), kind: shownKinds[kind] })),
        }
      },
    }),
  ]
}

const own = (caller: Caller, target: LimitTarget) => ({ organizationId: caller.organizationId, target })

/** Checks that the request names exactly one target. */
function toTarget(fields: z.output<typeof targetFields>): LimitTarget {
  const { workspaceName, projectId, projectName, keyId, organization } = fields
  const named = [keyId, projectId, workspaceName, organization || undefined].filter((it) => it !== undefined)
  if (named.length === 1) {
    if (organization && projectName === undefined) return { organization: true }
    if (keyId !== undefined && projectName === undefined) return { keyId }
    if (projectId !== undefined && projectName === undefined) return { projectId }
    if (workspaceName !== undefined)
      return projectName === undefined ? { workspaceName } : { workspaceName, projectName }
  }
  throw new HttpError(
    'badRequest',
    'Name the organization by organization=true, a workspace by workspaceName, a project by projectId or by workspaceName together with projectName, or a key ' +
      'by keyId (see GET /admin/keys); exactly one of them.',
  )
}

/** Absent and foreign targets get the same answer. */
function requireTarget(limits: GivenLimits | undefined, target: LimitTarget): GivenLimits {
  if (limits) return limits
  if ('organization' in target) throw new HttpError('organizationUnknown', 'There is no such organization.')
  if ('keyId' in target)
    throw new HttpError('badRequest', 'keyId: your organization has no such key; see GET /admin/keys')
  if ('projectId' in target || 'projectName' in target) {
    throw new HttpError('projectUnknown', 'There is no such project in your organization.')
  }
  throw new HttpError('workspaceUnknown', `There is no workspace "${target.workspaceName}" in your organization.`)
}

/**
 * Limits by count apply to each experiment, so a key cannot have them; those of tenants only to a workspace and an organization,
 * which has no others.
 */
function refuseUnfit(target: LimitTarget, limits: z.output<typeof givenLimits>) {
  for (const name of limitNames) {
    if (limits[name] == null) continue
    if ('organization' in target) {
      throw new HttpError('badRequest', `limits.${name}: holds for an experiment; set it for a workspace or a project`)
    }
    if ('keyId' in target && (name === 'metricNamesMax' || name === 'pointsPerMetricMax')) {
      throw new HttpError('badRequest', `limits.${name}: holds for an experiment; set it for a workspace or a project`)
    }
  }
  const isTenant = 'organization' in target || ('workspaceName' in target && !('projectName' in target))
  for (const name of tenantLimitNames) {
    if (limits[name] == null || isTenant) continue
    throw new HttpError(
      'badRequest',
      `limits.${name}: holds for a workspace or the organization; set it for one of them`,
    )
  }
}
