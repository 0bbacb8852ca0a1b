import type { ExperimentType } from '../../limits.ts'
import type { Queries } from '../database.ts'

/** The increase in an experiment's counts for one data type. `throttled`: rejected or dropped by a limit. */
export type CountedMore = { experimentId: bigint; type: ExperimentType; accepted: number; throttled: number }

/** SQL: the minutes since the Unix epoch. */
export const minuteNow = 'floor(extract(epoch FROM now()) / 60)::bigint'

/** SQL: counts of the row `c` by minute, when `excluded` adds to them. */
export const countMinute = `minute = excluded.minute,
  last_minute = CASE c.minute WHEN excluded.minute THEN c.last_minute WHEN excluded.minute - 1 THEN c.this_minute ELSE 0 END,
  this_minute = CASE c.minute WHEN excluded.minute THEN c.this_minute ELSE 0 END + excluded.this_minute`

/** SQL: about how much the row `c` accepted in the last 60 s: this minute, and the share of the last one. */
export const inLastMinute = `(CASE ${minuteNow} - c.minute
  WHEN 0 THEN c.this_minute + c.last_minute * (1 - extract(epoch FROM now()) / 60 + ${minuteNow})
  WHEN 1 THEN c.this_minute * (1 - extract(epoch FROM now()) / 60 + ${minuteNow})
  ELSE 0 END)::float8`

/** Adds to the counters of many experiments in one statement. Deleted experiments are skipped. */
export async function addToCounters(queries: Queries, counted: CountedMore[]): Promise<void> {
  await queries.row(
    `INSERT INTO experiment_counters AS c (experiment_id, data_type, accepted, throttled, minute, this_minute)
     SELECT more.id, more.type, more.accepted, more.throttled, ${minuteNow}, more.accepted
     FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS more(id, type, accepted, throttled)
     JOIN experiments e ON e.id = more.id ORDER BY more.id, more.type
     ON CONFLICT (experiment_id, data_type)
     DO UPDATE SET accepted = c.accepted + excluded.accepted, throttled = c.throttled + excluded.throttled, ${countMinute}`,
    [
      counted.map((it) => it.experimentId),
      counted.map((it) => it.type),
      counted.map((it) => it.accepted),
      counted.map((it) => it.throttled),
    ],
  )
}

export type Counters = { type: ExperimentType; accepted: bigint; throttled: bigint }

/** The counters of an experiment; types without data are absent. */
export async function listCounters(queries: Queries, experimentId: bigint): Promise<Counters[]> {
  return await queries.rows<Counters>(
    'SELECT data_type AS type, accepted, throttled FROM experiment_counters WHERE experiment_id = $1',
    [experimentId],
  )
}

/** The last time an experiment was throttled for a reason. */
export type Throttled = { experimentId: bigint; reason: string; lastAtMs: number }

/** Stores the throttling of many experiments in one statement; a time never goes back. */
export async function upsertThrottled(queries: Queries, throttled: Throttled[]): Promise<void> {
  await queries.row(
    `INSERT INTO experiment_throttles AS t (experiment_id, reason, last_at_ms)
     SELECT newer.id, newer.reason, newer.last_at_ms
     FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS newer(id, reason, last_at_ms)
     JOIN experiments e ON e.id = newer.id ORDER BY newer.id, newer.reason
     ON CONFLICT (experiment_id, reason) DO UPDATE SET last_at_ms = greatest(t.last_at_ms, excluded.last_at_ms)`,
    [throttled.map((it) => it.experimentId), throttled.map((it) => it.reason), throttled.map((it) => it.lastAtMs)],
  )
}

/** Forgets that an experiment was throttled. */
export async function deleteThrottled(queries: Queries, experimentId: bigint): Promise<void> {
  await queries.row('DELETE FROM experiment_throttles WHERE experiment_id = $1', [experimentId])
}
