import { z } from 'zod'
import { integerBetween, object } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import { findSeenTo, listNotifications, setSeenTo } from '../../store/postgres/accounts/notifications.ts'
import type { Database } from '../../store/postgres/database.ts'

const common = { permission: 'caller', topic: 'Notifications' } as const
const keptForMs = 14 * 24 * 3_600_000
const listedMax = 100
const timeMs = z.int().describe('ms since the Unix epoch')

/** What happened since the last visit of a user. */
export function createNotificationRoutes({ database }: { database: Database }): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      path: '/account/notifications',
      summary:
        'Lists what happened within 14 days, newest first, at most 100: runs of the caller that finished, crashed or fell ' +
        'silent (`lost`), and alerts that fired in the workspaces of the caller, each once by its last firing.',
      answer: z.object({
        notifications: z.array(
          z.object({
            kind: z.enum(['finished', 'crashed', 'lost', 'alert']),
            at: timeMs,
            isNew: z.boolean().describe('it happened after what the caller has seen'),
            workspaceName: z.string(),
            projectName: z.string().nullable(),
            experimentKey: z.string().nullable(),
            experimentName: z.string().nullable(),
            modelName: z.string().nullable().describe('the monitored model of an alert'),
            alertId: z.string().nullable(),
            alertName: z.string().nullable(),
            times: z.int().describe('how many times the alert fired within the 14 days; 1 for a run'),
            error: z.string().nullable().describe('why the run crashed, as it was reported'),
          }),
        ),
        seenTo: timeMs,
      }),
      shape: 'plain',
      async handle({ caller }) {
        const nowMs = Date.now()
        const seenTo = await findSeenTo(database, caller.userId)
        const found = await listNotifications(database, {
          userId: caller.userId,
          viewerId: caller.viewerId,
          fromMs: nowMs - keptForMs,
          nowMs,
          limit: listedMax,
        })
        return { notifications: found.map(({ atMs, ...it }) => ({ ...it, at: atMs, isNew: atMs > seenTo })), seenTo }
      },
    }),

    route({
      ...common,
      method: 'POST',
      path: '/account/notifications/seen',
      charge: 'personal',
      summary: 'Notes that the caller has seen what happened until a time; never takes it back.',
      body: object({ seenTo: integerBetween(0, Number.MAX_SAFE_INTEGER).describe('the `at` of the newest one seen') }),
      answer: z.object({ seenTo: timeMs }),
      shape: 'envelope',
      async handle({ body, caller }) {
        await setSeenTo(database, caller.userId, body.seenTo)
        return { seenTo: body.seenTo }
      },
    }),
  ]
}
