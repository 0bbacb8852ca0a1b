import { z } from 'zod'
import { integerBetween, optional } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { evaluateWindows } from '../../store/monitoring/alert-evaluation.ts'
import type { Database } from '../../store/postgres/database.ts'
import { alertMeasures, comparisons } from '../../store/postgres/monitoring/alerts.ts'
import type { Access } from '../access.ts'
import { findOfRule, foundAnswer as found, newRule, toStored } from './alert-rule.ts'
import { boundsOf } from './windows.ts'

type Deps = { database: Database; clickhouse: ClickHouse; eventReader: EventReader; access: Access }

const windowsMax = 100
const windowsDefault = 30

/** Shows what a rule would have done. */
export function createMonitoringPreviewRoutes({ database, clickhouse, eventReader, access }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/mpm/v2/alerts/preview',
      charge: 'none',
      permission: 'caller',
      topic: 'Production monitoring',
      atRoot: true,
      summary:
        'Evaluates an alert rule that is not saved for past windows, as it would have been for each of them with the events ' +
        'that are there now. Nothing is stored, and no webhook is called.',
      body: newRule.extend({
        windows: optional(integerBetween(1, windowsMax)).describe(
          `number of windows, the last one being the last that has ended; ${windowsDefault} when absent`,
        ),
        to: optional(integerBetween(0, Number.MAX_SAFE_INTEGER)).describe(
          'ms since the Unix epoch: the last window has ended by then; now when absent',
        ),
      }),
      answer: z.object({
        measure: z.enum(alertMeasures),
        comparison: z.enum(comparisons),
        threshold: z.number(),
        windows: z.array(
          z.object({
            from: z.int().describe('ms since the Unix epoch'),
            to: z.int(),
            fires: z.boolean(),
            worst: found.nullable().describe('the worst value; null if nothing could be measured'),
            found: z.array(found).describe('the values that cross the threshold, the worst first, at most 100'),
          }),
        ),
        problem: z.string().nullable().describe('why nothing could be measured'),
      }),
      shape: 'plain',
      async handle({ body, caller }) {
        const subject = await findOfRule(access, caller, body)
        const nowMs = Date.now()
        const rule = toStored({ ...body, from: undefined }, nowMs)
        const end = Math.floor(Math.min(body.to ?? nowMs, nowMs) / body.windowMs) * body.windowMs
        const count = Math.max(1, Math.min(body.windows ?? windowsDefault, Math.floor(end / body.windowMs)))
        const windows = { from: end - count * body.windowMs, to: end, intervalMs: body.windowMs }
        const { measure, comparison, threshold } = rule
        const evaluated = await evaluateWindows(
          { queries: database, clickhouse, eventReader },
          { ...rule, ...subject },
          windows,
        )
        return {
          measure,
          comparison,
          threshold,
          windows: evaluated.map(({ found, worst }, at) => ({
            ...boundsOf(windows, at),
            fires: found.length > 0,
            worst,
            found: found.slice(0, 100),
          })),
          problem: evaluated.find((it) => it.problem !== null)?.problem ?? null,
        }
      },
    }),
  ]
}
