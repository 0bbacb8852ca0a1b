import { z } from 'zod'
import { object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { type GivenLimits, limitNames } from '../../store/limits.ts'
import { administer } from '../../store/postgres/accounts/audit.ts'
import { listKeys } from '../../store/postgres/accounts/keys.ts'
import { findLimits, type LimitTarget, updateLimits } from '../../store/postgres/accounts/limits.ts'
import { shownKinds } from '../../store/postgres/accounts/users.ts'
import type { Database } from '../../store/postgres/database.ts'
import { projectQuery } from '../projects/projects.ts'
import { keyAnswer, toKeyAnswer } from './key-fields.ts'

const topic = 'Administration'

/** The value of a limit; null removes it. */
const limit = z.int('expected an integer').min(1, 'must be 1 or more').nullish()

const givenLimits = z.strictObject(
  Object.fromEntries(limitNames.map((name) => [name, limit])) as Record<(typeof limitNames)[number], typeof limit>,
  {
    error: ({ code }) =>
      code === 'unrecognized_keys' ? `there are only ${limitNames.join(', ')}` : 'expected an object of limits',
  },
)

const targetFields = object({ ...projectQuery.shape, keyId: optional(text(100, 1)) })

const givenAnswer = z
  .partialRecord(z.enum(limitNames), z.int())
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
      summary: 'Reads the limits set for a workspace, a project or a key.',
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
        'project override those of its workspace. They apply within 10 seconds, those of a key within one.',
      body: object({ ...targetFields.shape, limits: givenLimits }),
      answer: limitsAnswer,
      shape: 'envelope',
      async handle({ body: { limits, ...named }, caller }) {
        const target = toTarget(named)
        if ('keyId' in target) refuseCounts(limits)
        const given = Object.entries(limits)
        const set = Object.fromEntries(given.filter(([, value]) => value != null)) as GivenLimits
        const unset = given.filter(([, value]) => value === null).map(([name]) => name)
        const updated = await administer(database, caller, async (queries, note) => {
          const updated = await updateLimits(queries, own(caller, target), { set, unset })
          if (updated) {
            const { workspaceName = null } = updated
            const details = { ...target, ...(workspaceName !== null && { workspaceName }), set, unset }
            await note('limits.set', Object.values(target).join('/'), details)
          }
          return updated?.limits
        })
        return { limits: requireTarget(updated, target) }
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
function toTarget({ workspaceName, projectId, projectName, keyId }: z.output<typeof targetFields>): LimitTarget {
  const named = [keyId, projectId, workspaceName].filter((it) => it !== undefined)
  if (named.length === 1) {
    if (keyId !== undefined && projectName === undefined) return { keyId }
    if (projectId !== undefined && projectName === undefined) return { projectId }
    if (workspaceName !== undefined)
      return projectName === undefined ? { workspaceName } : { workspaceName, projectName }
  }
  throw new HttpError(
    'badRequest',
    'Name a workspace by workspaceName, a project by projectId or by workspaceName together with projectName, or a key ' +
      'by keyId (see GET /admin/keys); exactly one of them.',
  )
}

/** Absent and foreign targets get the same answer. */
function requireTarget(limits: GivenLimits | undefined, target: LimitTarget): GivenLimits {
  if (limits) return limits
  if ('keyId' in target)
    throw new HttpError('badRequest', 'keyId: your organization has no such key; see GET /admin/keys')
  if ('projectId' in target || 'projectName' in target) {
    throw new HttpError('projectUnknown', 'There is no such project in your organization.')
  }
  throw new HttpError('workspaceUnknown', `There is no workspace "${target.workspaceName}" in your organization.`)
}

/** Limits by count apply to each experiment, so a key cannot have them. */
function refuseCounts(limits: z.output<typeof givenLimits>) {
  for (const name of ['metricNamesMax', 'pointsPerMetricMax'] as const) {
    if (limits[name] == null) continue
    throw new HttpError('badRequest', `limits.${name}: holds for an experiment; set it for a workspace or a project`)
  }
}
