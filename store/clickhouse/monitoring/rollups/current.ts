import type { ClickHouse } from '../../connection.ts'
import { findShared, isAmong, type Part, type RangedPart } from '../../parts.ts'
import { sizeOf } from '../../row-counts.ts'
import type { Table } from '../../table.ts'
import { ofModel } from '../expressions.ts'
import type { createPartRows } from '../part-rows.ts'
import type { ModelEvents } from '../scope.ts'
import type { Rollup } from './rollup.ts'
import { isOutside } from './rollups.ts'

/**
 * Which rollups are current: they hold all rows of their ranges of claims.
 *
 * Rows are only ever added, so a rollup is current exactly while a table has as many rows in its range as it was made of
 * (`rows`). They are counted part by part; parts never change, so a count of a part is cached, and only new parts are read.
 * No watermark could say the same: blocks arrive late, out of order and more than once, merges rename parts, and a row in an
 * old range may be new. Rows that were delivered twice and not merged yet are a surplus, which is counted by itself.
 */
export type Current = {
  rollups: Rollup[]
  /** The parts that have rows outside of them. */
  outside: Part[]
}

/**
 * The rows to look at, all rollups there are of them, which are counted together, and the name that rollups count them under. Values are
 * in two tables.
 */
type Rows = { name: string; tables: readonly Table[]; model: ModelEvents; parts: Part[]; known: Rollup[] }

const attemptsMax = 3

export function createCurrentRollups(clickhouse: ClickHouse, { countInRollups }: ReturnType<typeof createPartRows>) {
  /** With more rows than this that may be there twice, rollups are not used. */
  const sharedRowsMax = 2_000_000

  /** How many rows inside of rollups are repetitions; undefined when too many rows may be. */
  async function countRepeated(rollups: Rollup[], { tables, model }: Rows, all: RangedPart[]) {
    let repeated = 0
    for (const table of tables) {
      const parts = all.filter((it) => it.table === table.name)
      const shared = findShared(parts)
      if (shared.rows > sharedRowsMax) return undefined
      if (shared.ranges.length === 0) continue
      const isShared = shared.ranges.map(([low, high]) => `claim BETWEEN ${low} AND ${high}`).join(' OR ')
      const key = [...table.primaryKey, ...table.identity].join(', ')
      const [row] = await clickhouse.rows<{ n: string }>(
        `SELECT sum((c - 1) * size) AS n FROM (
           SELECT count() AS c, any(${sizeOf(table)}) AS size FROM ${clickhouse.database}.${table.name}
           WHERE ${ofModel(model)} AND ${isAmong(parts)} AND (${isShared}) AND NOT ${isOutside(rollups)}
           GROUP BY ${key} HAVING c > 1)`,
      )
      repeated += Number(row?.n ?? 0)
    }
    return repeated
  }

  /**
   * Finds some rollups that are current: all of them, all but the last one (late events mostly belong there), half of those
   * or none. Undefined when a part went away meanwhile.
   */
  return async (rollups: Rollup[], rows: Rows): Promise<Current | undefined> => {
    const { name, model, parts, known } = rows
    let left = rollups
    for (let attempt = 0; attempt < attemptsMax && left.length > 0; attempt++) {
      const counted = await countInRollups(left, known, { whole: ofModel(model), parts })
      if (!counted) return undefined
      const surplus = counted.inside - left.reduce((sum, it) => sum + (it.rows[name] ?? 0), 0)
      if (surplus === 0 || (surplus > 0 && surplus === (await countRepeated(left, rows, counted.parts)))) {
        return { rollups: left, outside: counted.outside }
      }
      left = left.slice(0, attempt === 0 ? -1 : Math.floor(left.length / 2))
    }
    return { rollups: [], outside: parts }
  }
}
