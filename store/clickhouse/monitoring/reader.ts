import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { ClickHouse } from '../connection.ts'
import { areAllIn, createPartsList, findShared, type Part, type RangedPart } from '../parts.ts'
import type { Table } from '../table.ts'
import { createPartRows } from './part-rows.ts'
import { createCatalogs } from './rollups/catalog.ts'
import { type Current, createCurrentRollups } from './rollups/current.ts'
import { createRolledFeatures } from './rollups/rolled-features.ts'
import { type Plan, type Source, selectFinalRows, selectRows, type TablePlan, toWhole } from './source.ts'

/**
 * Reads the events of models, each event once however often it was delivered, from rollups and raw rows.
 *
 *    question          its own file: scope, features, windows -> sources, and the SQL of the answer
 *    -> Catalog        tombstones and rollups of a model (`rollups/catalog.ts`)
 *    -> Source         the rows to read, and the rollups that may replace them (`source.ts`)
 *    -> Plan           the rollups and parts to read: decided here, for all sources of a query by one snapshot of parts
 *    -> SQL of rows    made from source and plan (`source.ts`), put into the query of the question
 *
 * `FINAL` would deduplicate all rows, at twenty times the cost. But no part has a row twice (`insertBlocks`), and claims
 * grow with time, so few parts overlap in claims: only rows in overlapping ranges are deduplicated, by hashing.
 *
 * A plan names its parts, so a part that is inserted later is not read. A part that is merged during the query may be
 * missing from the answer. So the parts are listed again at the end, and the read is repeated if one is gone. After three
 * attempts, or if parts overlap too much, the reader uses `FINAL`.
 *
 * All caches belong to one reader, which the entry files create and pass down: facts about parts and about rollups, which
 * never change, and answers about references, keyed by the parts they were read from. None of them needs invalidation.
 */
export function createEventReader(clickhouse: ClickHouse) {
  const { database } = clickhouse
  const listParts = createPartsList(clickhouse)
  const partRows = createPartRows(clickhouse, listParts)
  const findCurrent = createCurrentRollups(clickhouse, partRows)
  const answers = new LRUCache<string, unknown[]>({ max: answersMax })

  /** Decides how each source is read; undefined if a part was removed meanwhile. */
  async function plan(sources: Source[], active: Part[]): Promise<Plan[] | undefined> {
    // Most sources of a query differ only in their features, and rollups hold all features.
    const found = new Map<string, Promise<Current | undefined>>()
    const choose = ({ stored, scope, catalog, rollups }: Source) => {
      const parts = active.filter((it) => stored.tables.some(({ name }) => name === it.table))
      if (rollups.length === 0) return { rollups, outside: parts }
      const key = [stored.name, scope.modelId, scope.kind, ...rollups.map((it) => it.id)].join(' ')
      const current = found.get(key) ?? findCurrent(rollups, { ...stored, model: scope, parts, known: catalog.rollups })
      found.set(key, current)
      return current
    }
    const chosen = await Promise.all(sources.map(choose))
    if (chosen.some((it) => it === undefined)) return undefined
    const current = chosen as Current[]
    const parts = await partRows.findRanges(
      sources.map((source, at) => {
        const { rollups, outside } = current[at] as Current
        return { whole: toWhole(source, rollups), parts: outside }
      }),
    )
    return parts?.map((its, at): Plan => {
      const tables = sources[at]?.stored.tables ?? []
      return { rollups: current[at]?.rollups ?? [], tables: tables.map((table) => planTable(table, its)) }
    })
  }

  /**
   * Runs `work` with one table expression per source; repeats it if a part was removed meanwhile. `parts` are those of all
   * plans; undefined if all parts are read.
   */
  async function run(
    sources: Source[],
    work: (tables: string[], parts: Part[] | undefined) => Promise<void>,
  ): Promise<void> {
    const names = [...new Set(sources.flatMap((it) => it.stored.tables.map(({ name }) => name)))]
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const plans = await plan(sources, await listParts(names))
      if (!plans) continue
      const tables = plans.flatMap((it) => it.tables)
      if (tables.some((it) => it.sharedRows > hashedRowsMax || it.shared.length > sharedRangesMax)) break
      const parts = tables.flatMap((it) => it.parts)
      await work(
        sources.map((source, at) => selectRows(database, source, plans[at] as Plan)),
        parts,
      )
      if (areAllIn(parts, await listParts(names))) return
    }
    await work(
      sources.map((it) => selectFinalRows(database, it)),
      undefined,
    )
  }

  return {
    clickhouse,
    run,
    listParts,
    findCatalog: createCatalogs(clickhouse),
    findCurrent,
    rolledFeatures: createRolledFeatures(clickhouse),

    /** Runs a query over sources. `toQuery` gets one table expression for each. */
    async read<Row>(sources: Source[], toQuery: (tables: string[]) => string): Promise<Row[]> {
      let rows: Row[] = []
      await run(sources, async (tables) => {
        rows = await clickhouse.rows<Row>(toQuery(tables))
      })
      return rows
    },

    /**
     * Like `read`, for data that rarely changes, such as references: the answer is cached by query and parts. The query
     * must depend on nothing else, so there must be no tombstones.
     */
    async readCached<Row>(sources: Source[], toQuery: (tables: string[]) => string): Promise<Row[]> {
      let rows: Row[] = []
      await run(sources, async (tables, parts) => {
        const query = toQuery(tables)
        const key = parts && hash('sha256', JSON.stringify([query, parts.map((it) => it.id)]))
        rows = ((key && answers.get(key)) as Row[] | undefined) ?? (await clickhouse.rows<Row>(query))
        if (key) answers.set(key, rows)
      })
      return rows
    },
  }
}

function planTable(table: Table, parts: RangedPart[]): TablePlan {
  const its = parts.filter((it) => it.table === table.name)
  const shared = findShared(its)
  return { table, parts: its, shared: shared.ranges, sharedRows: shared.rows }
}

export type EventReader = ReturnType<typeof createEventReader>

const attemptsMax = 3
const answersMax = 1_000
/** With more rows than this in shared ranges, FINAL costs less than hashing them. */
const hashedRowsMax = 2_000_000
const sharedRangesMax = 100
