import type { ClickHouse } from '../clickhouse/connection.ts'
import type { Queries } from '../postgres/database.ts'
import type { ExportedRun } from '../postgres/experiments/exported-runs.ts'
import { toAliveSince } from '../postgres/experiments/heartbeats.ts'
import type { RunCondition } from '../postgres/runs/condition.ts'
import { listFoundRuns } from '../postgres/runs/find-runs.ts'
import { createConditions, type RunsAsked } from './conditions.ts'
import type { Query } from './query.ts'

type Conditions = ReturnType<typeof createConditions>

type Asked = {
  projectId: string
  query: Query
  /** True: the archived ones only; false: the others only; undefined: all. */
  archived: boolean | undefined
  /** Another condition that they must meet. */
  also?: (runs: RunsAsked, conditions: Conditions) => Promise<RunCondition>
  /** Only those that were heard of since then, in ms since the Unix epoch. */
  activeSinceMs?: number
  /** When it is asked: what `started > 1h` counts from. */
  nowMs: number
}

/**
 * The experiments of a project that match a query, in the order in which they were made, those symlinked into it included.
 * Callers have checked who asks. What it costs depends on how many experiments the project has, not on their points.
 */
export async function findMatching(
  { reads, clickhouse }: { reads: Queries; clickhouse: ClickHouse },
  { projectId, query, archived, also, activeSinceMs, nowMs }: Asked,
): Promise<ExportedRun[]> {
  const runs = { projectId, archived, aliveSinceMs: toAliveSince(nowMs) }
  const conditions = createConditions({ reads, clickhouse }, runs, nowMs)
  const of = await Promise.all([
    conditions.toCondition(query),
    ...(also ? [also(runs, conditions)] : []),
    ...(activeSinceMs === undefined ? [] : [isActive(activeSinceMs)]),
  ])
  return await listFoundRuns(reads, { ...runs, condition: { is: 'and', of } })
}

const isActive = (sinceMs: number): RunCondition => ({
  is: 'test',
  field: { of: 'run', name: 'lastActive' },
  tests: [{ as: 'number', comparison: '>=', number: String(sinceMs) }],
  isNegated: false,
})
