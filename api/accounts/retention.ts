import { z } from 'zod'
import { object, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { administer } from '../../store/postgres/accounts/audit.ts'
import { findRetentionDays, listSweeps, updateRetentionDays } from '../../store/postgres/accounts/retention.ts'
import type { Database } from '../../store/postgres/database.ts'
import { type RetentionDays, retentionTypes } from '../../store/retention.ts'

const topic = 'Administration'

/** A hundred years. */
const daysMax = 36_500
const days = z
  .int('expected an integer')
  .min(1, 'must be 1 or more')
  .max(daysMax, `must be ${daysMax} or fewer`)
  .nullish()

const givenDays = z.strictObject(
  Object.fromEntries(retentionTypes.map((name) => [name, days])) as Record<
    (typeof retentionTypes)[number],
    typeof days
  >,
  {
    error: ({ code }) =>
      code === 'unrecognized_keys' ? `there are only ${retentionTypes.join(', ')}` : 'expected an object of days',
  },
)

const target = { workspaceName: text(100, 1) }

const keptDays = z.partialRecord(z.enum(retentionTypes), z.int()).describe('absent ones are kept for ever')

/** How long a workspace keeps its data. */
export function createRetentionRoutes({ database }: { database: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/admin/retention',
      permission: 'auditor',
      topic,
      summary: 'Reads how many days a workspace keeps each kind of data, and what was deleted by that rule.',
      query: object(target),
      answer: z.object({
        keptDays,
        deletions: z
          .array(
            z.object({
              type: z.enum(retentionTypes),
              upTo: z.int().describe('data accepted before this time was deleted; ms since the Unix epoch'),
              rows: z.int().describe('points, lines, or events'),
              at: z.int().describe('the time of the deletion, ms since the Unix epoch'),
            }),
          )
          .describe('the newest first, at most 100'),
      }),
      shape: 'plain',
      async handle({ query: { workspaceName }, caller: { organizationId } }) {
        const found = requireWorkspace(
          await findRetentionDays(database, { organizationId, workspaceName }),
          workspaceName,
        )
        const sweeps = await listSweeps(database, { organizationId, workspaceName })
        return {
          keptDays: found,
          deletions: sweeps.map(({ type, upToMs, rows, atMs }) => ({
            type,
            upTo: Number(upToMs),
            rows: Number(rows),
            at: Math.floor(atMs),
          })),
        }
      },
    }),

    route({
      method: 'PUT',
      path: '/admin/retention',
      charge: 'call',
      permission: 'admin',
      topic,
      summary:
        'Sets how many days a workspace keeps points, resource usage, lines of output, events, and labels sent without ' +
        'their event; null, the default, keeps them for ever. Age counts from acceptance, not from the timestamp. Expired ' +
        'data is deleted for good, by whole days (UTC), within the hour. Prediction ids are never freed.',
      body: object({ ...target, keptDays: givenDays }),
      answer: z.object({ keptDays }),
      shape: 'envelope',
      async handle({ body: { workspaceName, keptDays }, caller }) {
        const given = Object.entries(keptDays)
        const set = Object.fromEntries(given.filter(([, value]) => value != null)) as RetentionDays
        const unset = given.filter(([, value]) => value === null).map(([name]) => name)
        const { organizationId } = caller
        const updated = await administer(database, caller, async (queries, note) => {
          const updated = await updateRetentionDays(queries, { organizationId, workspaceName }, { set, unset })
          if (updated) await note('retention.set', workspaceName, { workspaceName, set, unset })
          return updated
        })
        return { keptDays: requireWorkspace(updated, workspaceName) }
      },
    }),
  ]
}

/** Absent and foreign workspaces get the same answer. */
function requireWorkspace(found: RetentionDays | undefined, workspaceName: string): RetentionDays {
  if (found) return found
  throw new HttpError('workspaceUnknown', `There is no workspace "${workspaceName}" in your organization.`)
}
