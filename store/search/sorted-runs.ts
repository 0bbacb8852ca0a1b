import type { MetricPart } from '../clickhouse/points/metric-search.ts'
import type { Queries } from '../postgres/database.ts'
import type { RunCondition } from '../postgres/runs/condition.ts'
import type { RunField } from '../postgres/runs/fields.ts'
import { type FoundRun, findRuns, type RunScope } from '../postgres/runs/find-runs.ts'
import type { Direction, RunKey, SortKey } from '../postgres/runs/keys.ts'
import type { createConditions } from './conditions.ts'

/** What runs are sorted by. */
export type SortBy = RunField | { metric: MetricPart }

type Deps = { reads: Queries; conditions: Pick<ReturnType<typeof createConditions>, 'readMetric' | 'readFirst'> }

type Order = {
  by: SortBy[]
  directions: Direction[]
  /** The last row of the page before. */
  after: { keys: SortKey[]; id: bigint } | undefined
  limit: number
}

/** Of runs that a query leaves out, so many times a page may come first before all values are read. */
const firstOfPage = 4
const firstLeast = 1_000

const [isNumber, isAbsent] = [0, 3]

/**
 * A page of the runs that meet a condition, and how many do; see `findRuns`.
 *
 * By a metric, the page is sought among the runs that come first in ClickHouse, and only when it is not full among all: their
 * values are some megabytes in a large project.
 */
export async function findSortedRuns(
  { reads, conditions }: Deps,
  { condition, ...scope }: Omit<RunScope, 'condition'> & { condition: Promise<RunCondition> },
  { by, ...order }: Order,
): Promise<{ runs: FoundRun[]; total: number }> {
  const [met, first, ...others] = await Promise.all([condition, readFirstKey(), ...by.slice(1).map(toKey)])
  const found = await findRuns(reads, { ...scope, condition: met }, { ...order, keys: [first.key, ...others] })
  // Runs behind the first ones seem to have no value.
  if (first.isWhole || found.runs.every((it) => it.place[0]?.[0] !== isAbsent)) return found
  const keys = [await toKey(by[0] as SortBy), ...others]
  return await findRuns(reads, { ...scope, condition: met }, { ...order, keys })

  async function readFirstKey(): Promise<{ key: RunKey; isWhole: boolean }> {
    const { directions, after, limit } = order
    const [key, direction, place] = [by[0] as SortBy, directions[0] as Direction, after?.keys[0]]
    if (!('metric' in key) || (place && place[0] !== isNumber)) return { key: await toKey(key), isWhole: true }
    const { isWhole, ...values } = await conditions.readFirst(key.metric, {
      direction,
      from: place && Number(place[1]),
      limit: firstOfPage * limit + firstLeast,
    })
    return { key: { of: 'given', ...values }, isWhole }
  }

  async function toKey(key: SortBy): Promise<RunKey> {
    return 'metric' in key ? { of: 'given', ...(await conditions.readMetric(key.metric)) } : key
  }
}
