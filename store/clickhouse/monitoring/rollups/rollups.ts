import type { ClickHouse } from '../../connection.ts'
import { ofModel } from '../expressions.ts'
import type { ModelEvents } from '../scope.ts'
import type { Rollup } from './rollup.ts'
import { rollupsTable } from './tables.ts'

type Row = { level: number } & Record<
  'id' | 'low' | 'high' | 'event_rows' | 'value_rows' | 'voided' | 'first' | 'last',
  string
> &
  Record<'versions' | 'counts' | 'firsts' | 'lasts' | 'received', string[]>

/** The rollups of a model, from low to high, the wider first; some may be stale. */
export async function listRollups(clickhouse: ClickHouse, model: ModelEvents): Promise<Rollup[]> {
  const rows = await clickhouse.rows<Row>(
    `SELECT * EXCEPT (model_id, kind) FROM ${clickhouse.database}.${rollupsTable} FINAL
     WHERE ${ofModel(model)} AND dropped = 0 ORDER BY low, high DESC, id DESC`,
  )
  return rows.map((it) => ({
    id: it.id,
    level: it.level,
    low: BigInt(it.low),
    high: BigInt(it.high),
    rows: { events: Number(it.event_rows), event_values: Number(it.value_rows) },
    tombstones: Number(it.voided),
    first: Number(it.first),
    last: Number(it.last),
    versions: it.versions.map((version, at) => ({
      version,
      events: Number(it.counts[at]),
      first: BigInt(it.firsts[at] as string),
      last: BigInt(it.lasts[at] as string),
      received: BigInt(it.received[at] as string),
    })),
  }))
}

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
