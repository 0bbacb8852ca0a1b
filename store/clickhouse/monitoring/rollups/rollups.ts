import type { ClickHouse } from '../../connection.ts'
import { ofModels } from '../expressions.ts'
import type { ModelEvents } from '../scope.ts'
import { eventKinds } from '../tables.ts'
import type { Rollup } from './rollup.ts'
import { rollupsTable } from './tables.ts'

type Row = { kind: number; level: number } & Record<
  'model_id' | 'id' | 'low' | 'high' | 'event_rows' | 'value_rows' | 'voided' | 'first' | 'last',
  string
> &
  Record<'versions' | 'counts' | 'firsts' | 'lasts' | 'received', string[]>

/** The rollups of a model, from low to high, the wider first; some may be stale. */
export async function listRollups(clickhouse: ClickHouse, model: ModelEvents): Promise<Rollup[]> {
  return (await listRollupsOfEach(clickhouse, [model]))[0] ?? []
}

/** The same of several models, in their order. */
export async function listRollupsOfEach(clickhouse: ClickHouse, models: ModelEvents[]): Promise<Rollup[][]> {
  const rows = await clickhouse.rows<Row>(
    `SELECT * FROM ${clickhouse.database}.${rollupsTable} FINAL
     WHERE ${ofModels(models)} AND dropped = 0 ORDER BY low, high DESC, id DESC`,
  )
  const ofEach = Map.groupBy(rows, (it) => `${it.model_id} ${it.kind}`)
  return models.map((it) => (ofEach.get(`${it.modelId} ${eventKinds[it.kind]}`) ?? []).map(toRollup))
}

const toRollup = (row: Row): Rollup => ({
  id: row.id,
  level: row.level,
  low: BigInt(row.low),
  high: BigInt(row.high),
  rows: { events: Number(row.event_rows), event_values: Number(row.value_rows) },
  tombstones: Number(row.voided),
  first: Number(row.first),
  last: Number(row.last),
  versions: row.versions.map((version, at) => ({
    version,
    events: Number(row.counts[at]),
    first: BigInt(row.firsts[at] as string),
    last: BigInt(row.lasts[at] as string),
    received: BigInt(row.received[at] as string),
  })),
})

/** Rollups that do not overlap, out of such that lie side by side or within each other: the widest that are `usable`. */
export function chooseRollups(rollups: Rollup[], isUsable: (rollup: Rollup) => boolean): Rollup[] {
  const chosen: Rollup[] = []
  for (const it of rollups) {
    const last = chosen.at(-1)
    if ((last === undefined || it.low > last.high) && isUsable(it)) chosen.push(it)
  }
  return chosen
}

/** The condition on rows that they are in none of the rollups, which do not overlap; undefined without any. */
export function isOutside(rollups: Rollup[]): string | undefined {
  if (rollups.length === 0) return undefined
  const outside: string[] = []
  let from = 0n
  for (const { low, high } of rollups) {
    if (low > from) outside.push(`claim BETWEEN ${from} AND ${low - 1n}`)
    from = high + 1n
  }
  // Bounds on both sides are what an index of granules is looked up by; a negation is not.
  return `(${[...outside, `claim >= ${from}`].join(' OR ')})`
}
