import { silentMsMax, throttledForMs } from '../experiments/experiments.ts'
import type { ValueKind } from '../experiments/values.ts'
import type { Parameters } from './parameters.ts'

/** What a run has, of what Postgres keeps. Metrics are in ClickHouse. */
export type RunField = { of: 'run'; name: RunAttribute } | { of: 'tags' } | { of: ValueKind; name: string }

/** The attributes of an experiment `e` of the user `u`. */
export type RunAttribute = keyof typeof attributes

const end = 'coalesce(e.end_time_ms, e.active_at_ms)'
const isRunning = (aliveSince: string) => `((e.alive_at_ms IS NOT NULL AND e.alive_at_ms > ${aliveSince})
  OR (e.reported_status IS NOT NULL AND e.active_at_ms > ${aliveSince} - ${silentMsMax}))`

type Attribute = { kind: 'text' | 'number' | 'flag'; toSql(aliveSince: string): string }
const text = (sql: string): Attribute => ({ kind: 'text', toSql: () => sql })
const number = (sql: string): Attribute => ({ kind: 'number', toSql: () => sql })
const flag = (sql: string): Attribute => ({ kind: 'flag', toSql: () => sql })

/** Times are ms since the Unix epoch, durations ms. */
const attributes = {
  name: text('e.name'),
  key: text('e.key'),
  state: {
    kind: 'text',
    toSql: (aliveSince: string) =>
      `CASE WHEN e.has_crashed THEN 'crashed' WHEN ${isRunning(aliveSince)} THEN 'running'
        WHEN e.alive_at_ms IS NULL AND e.reported_status IS NULL THEN 'finished' ELSE 'lost' END`,
  },
  userName: text('u.user_name'),
  filePath: text('e.file_path'),
  startTime: number('e.start_time_ms'),
  endTime: number(end),
  lastActive: number('e.active_at_ms'),
  duration: number(`greatest(0, ${end} - e.start_time_ms)`),
  archived: flag('e.archived'),
  hasCrashed: flag('coalesce(e.has_crashed, false)'),
  isRunning: { kind: 'flag', toSql: isRunning },
  isThrottled: flag(`EXISTS (SELECT FROM experiment_throttles t WHERE t.experiment_id = e.id
    AND t.last_at_ms > extract(epoch FROM now()) * 1000 - ${throttledForMs})`),
  error: text('e.error'),
  fileName: text(`regexp_replace(e.file_path, '^.*[/\\\\]', '')`),
  projectId: text('e.project_id'),
  projectName: text('(SELECT p.name FROM projects p WHERE p.id = e.project_id)'),
  workspaceName: text(
    '(SELECT w.name FROM projects p JOIN workspaces w ON w.id = p.workspace_id WHERE p.id = e.project_id)',
  ),
} satisfies Record<string, Attribute>

/**
 * An attribute as SQL.
 *
 * @param aliveSinceMs a run that gave a sign of life after it is running
 */
export function describeAttribute(name: RunAttribute, aliveSinceMs: number, parameters: Parameters) {
  const { kind, toSql } = attributes[name] as Attribute
  const sql = toSql(name === 'state' || name === 'isRunning' ? parameters.bind(aliveSinceMs, 'bigint') : '')
  return { kind, sql, asText: kind === 'flag' ? `CASE WHEN ${sql} THEN 'true' ELSE 'false' END` : `(${sql})::text` }
}

/** A run that is silent for so long is told of as lost: a short break of its network is none. */
const lostAfterMs = 120_000

/**
 * How a run `e` ended, and when that became known, as SQL: `finished` and `crashed` when it said so, `lost` when it fell silent;
 * null while it goes on, and for a run that never told whether it lives.
 *
 * @param now the placeholder of the present in ms
 */
export function describeEnd(now: string): { kind: string; at: string } {
  const isAlive = isRunning(`${now} - ${lostAfterMs}`)
  const isSilent = '(e.alive_at_ms IS NOT NULL OR e.reported_status IS NOT NULL)'
  const kind = `CASE WHEN e.has_crashed THEN 'crashed' WHEN ${isAlive} THEN NULL WHEN ${isSilent} THEN 'lost'
    WHEN coalesce(e.not_alive_at_ms, e.end_time_ms) IS NOT NULL THEN 'finished' END`
  const toldAt = `coalesce(e.not_alive_at_ms, e.end_time_ms, e.active_at_ms)`
  const at = `CASE WHEN e.has_crashed OR NOT ${isSilent} THEN ${toldAt}
    ELSE coalesce(e.alive_at_ms, e.active_at_ms + ${silentMsMax}) + ${lostAfterMs} END`
  return { kind, at }
}

/** An entry of the index by name has room for values of so many bytes. Conditions name it, or else it is not used. */
export const shortBytesMax = 200
export const isShort = (value: string) => `octet_length(${value}) <= ${shortBytesMax}`
export const isLong = (value: string) => `octet_length(${value}) > ${shortBytesMax}`
