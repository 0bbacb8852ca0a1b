import type { ClickHouse } from '../../connection.ts'
import type { ClaimRange } from '../../parts.ts'
import { ofModel } from '../expressions.ts'
import type { EventReader } from '../reader.ts'
import type { ModelEvents } from '../scope.ts'
import { eventRows, type Source, selectFinalRows, valueRows } from '../source.ts'
import { eventFeaturesTable, eventKinds, eventsTable, tombstonesTable, type ValuePart, valueParts } from '../tables.ts'
import { emptyCatalog } from './catalog.ts'
import { areNamed, waysOfCounting } from './cells.ts'
import { dropStale } from './drop.ts'
import { type Different, type FeatureStats, isUndecided, selectDifferent, selectStats, toGrid } from './grids.ts'
import { joinAll, joinNeighbours } from './joins.ts'
import { createRollupId, insertRollupValues, publishRollup } from './publish.ts'
import { chooseRollups, listRollups } from './rollups.ts'
import { cellColumns, rollupValuesTable, rollupVersionValuesTable } from './tables.ts'

/** When and how rollups are made. */
export type RollupLimits = {
  /** Events received so long ago are settled: few more will arrive with claims between theirs. */
  settledMs: number
  /** Fewer events than this are read as raw rows. */
  eventsMin: number
  /** Events of one rollup at most; larger rollups are made of rollups. */
  eventsMax: number
}

export const rollupLimits: RollupLimits = { settledMs: 300_000, eventsMin: 100_000, eventsMax: 100_000 }

/** With more tombstones than this in its range, no rollup is made. */
const tombstonesMax = 1_000
/** Each query of features finds and reads the rows of the range anew. */
const featuresAtOnce = 50
/** Much of the work on a range is that of one core. */
const rangesAtOnce = 2

/**
 * Brings the rollups of a model up to date: drops stale ones, sums up what came since the last one, and joins small ones to
 * large ones, so that any number of events is in a few rollups. The one of all events comes last: it would be made again and
 * again. Resolves with how many were made; calling it again goes on.
 */
export async function rollUp(
  reader: EventReader,
  model: ModelEvents,
  limits: RollupLimits,
  stop?: AbortSignal,
): Promise<number> {
  const { clickhouse } = reader
  await dropStale(reader, model)
  let made = 0
  for (;;) {
    made += await joinNeighbours(clickhouse, model)
    if (stop?.aborted) return made
    const ranges = await findRanges(clickhouse, model, limits)
    if (ranges.length === 0) break
    const outcomes = await Promise.allSettled(ranges.map((it) => sumUp(reader, model, it, stop)))
    for (const it of outcomes) if (it.status === 'rejected') throw it.reason
    const makes = outcomes.filter((it) => it.status === 'fulfilled' && it.value === 'made').length
    made += makes
    if (makes < ranges.length) break
  }
  return stop?.aborted ? made : made + (await joinAll(clickhouse, model))
}

async function sumUp(reader: EventReader, model: ModelEvents, range: ClaimRange, stop: AbortSignal | undefined) {
  const outcome = await buildRollup(reader, model, { range, insert: insertOnce }, stop)
  return outcome === 'merged meanwhile'
    ? await buildRollup(reader, model, { range, insert: insertFinal }, stop)
    : outcome
}

/** Inserts what is selected from sources; false if a merge came between, so that it may be there twice or in part. */
type Insert = (reader: EventReader, sources: Source[], toStatement: (tables: string[]) => string) => Promise<boolean>

const insertOnce: Insert = async ({ clickhouse, run }, sources, toStatement) => {
  let attempts = 0
  await run(sources, async (tables) => {
    if (attempts++ === 0) await runLong(clickhouse, toStatement(tables))
  })
  return attempts === 1
}

/** Costs many times as much, and no merge can come between. */
const insertFinal: Insert = async ({ clickhouse }, sources, toStatement) => {
  await runLong(clickhouse, toStatement(sources.map((it) => selectFinalRows(clickhouse.database, it))))
  return true
}

/** A statement names features, versions and tombstones. */
const runLong = ({ command }: ClickHouse, statement: string) =>
  command(statement, { max_query_size: String(statement.length * 4 + 1_000_000) })

/** The next claims to sum up, in ranges that follow each other. */
async function findRanges(clickhouse: ClickHouse, model: ModelEvents, limits: RollupLimits): Promise<ClaimRange[]> {
  const rollups = chooseRollups(await listRollups(clickhouse, model), () => true)
  const taken = rollups.map(({ low, high }): ClaimRange => [low, high])
  const ranges: ClaimRange[] = []
  while (ranges.length < rangesAtOnce) {
    const range = await findRange(clickhouse, model, limits, taken)
    if (!range) return ranges
    ranges.push(range)
    taken.push(range)
    taken.sort((one, other) => (one[0] < other[0] ? -1 : 1))
  }
  return ranges
}

/** The next claims in no range: as many as have `eventsMax` events, if they are settled. */
async function findRange(
  clickhouse: ClickHouse,
  model: ModelEvents,
  { settledMs, eventsMin, eventsMax }: RollupLimits,
  taken: ClaimRange[],
): Promise<ClaimRange | undefined> {
  let low = 0n
  for (const next of [...taken, undefined]) {
    if (next === undefined || low < next[0]) {
      const before = next === undefined ? '' : ` AND claim < ${next[0]}`
      const from = `FROM ${clickhouse.database}.${eventsTable.name} WHERE ${ofModel(model)} AND claim >= ${low}${before}`
      // Events lie by claim, so the next ones are found without reading those after them.
      const [found] = await clickhouse.rows<{ n: string; high: string; all: string }>(
        `SELECT sumIf(c, isIn) AS n, maxIf(claim, isIn) AS high, sum(c) AS all FROM (
           SELECT claim, c, newest <= ${Date.now() - settledMs} AND (total <= ${eventsMax} OR total = c) AS isIn FROM (
             SELECT claim, c, sum(c) OVER (ORDER BY claim) AS total, max(latest) OVER (ORDER BY claim) AS newest FROM (
               SELECT claim, count() AS c, max(received) AS latest ${from}
               AND claim <= (SELECT max(claim) FROM (SELECT claim ${from} ORDER BY claim LIMIT ${eventsMax + 1}))
               GROUP BY claim)))`,
      )
      // A gap between two rollups is closed however small it is, or else they could not be joined.
      const isAll = next !== undefined && found?.n === found?.all
      if (found && isAll) return [low, (next as ClaimRange)[0] - 1n]
      if (found && Number(found.n) >= (next ? 1 : eventsMin)) return [low, BigInt(found.high)]
      if (next === undefined) return undefined
    }
    low = next[1] + 1n
  }
  return undefined
}

/** Sums up all events of a range, or leaves it for another time. A row that is added meanwhile makes the rollup stale. */
async function buildRollup(
  reader: EventReader,
  model: ModelEvents,
  { range, insert }: { range: ClaimRange; insert: Insert },
  stop: AbortSignal | undefined,
): Promise<'made' | 'left' | 'merged meanwhile'> {
  const { clickhouse } = reader
  const { database } = clickhouse
  const [low, high] = range
  const tombstones = await clickhouse.rows<{ claim: string; place: number }>(
    `SELECT DISTINCT claim, place FROM ${database}.${tombstonesTable.name}
     WHERE ${ofModel(model)} AND claim BETWEEN ${low} AND ${high} LIMIT ${tombstonesMax + 1}`,
  )
  if (tombstones.length > tombstonesMax) return 'left'
  const isDead =
    tombstones.length === 0 ? 'false' : `(claim, place) IN (${tombstones.map((it) => `(${it.claim}, ${it.place})`)})`
  /** All rows of the range, with whether they are tombstoned. */
  const inRange = (source: Source): Source => ({
    ...source,
    claims: range,
    columns: `${source.columns}, ${isDead} AS is_dead`,
  })

  const [versions, features, last] = await Promise.all([
    reader.read<Record<'version' | 'events' | 'all' | 'first' | 'last' | 'received', string>>(
      [inRange(eventRows(model, emptyCatalog))],
      ([events]) => `SELECT version, countIf(NOT is_dead) AS events, count() AS all, min(timestamp) AS first,
        max(timestamp) AS last, max(received) AS received FROM ${events} GROUP BY version`,
    ),
    clickhouse.rows<{ part: number; name: string }>(
      `SELECT DISTINCT part, name FROM ${database}.${eventFeaturesTable} WHERE ${ofModel(model)} ORDER BY part, name`,
    ),
    listRollups(clickhouse, model).then((it) => it.at(-1)),
  ])
  const findRolled = await reader.rolledFeatures(model, last ? [last] : [])

  const id = createRollupId()
  const versionNames = versions.map((it) => it.version)
  const hasVersions = versions.length > 1
  const [table, version] = hasVersions ? [rollupVersionValuesTable, 'version, '] : [rollupValuesTable, '']
  const stats: FeatureStats[] = []
  for (const [part, code] of Object.entries(valueParts) as [ValuePart, number][]) {
    const ofPart = features.filter((it) => it.part === code).map((it) => it.name)
    for (let at = 0; at < ofPart.length; at += featuresAtOnce) {
      if (stop?.aborted) return 'left'
      const valuesOf = (names: string[]) => valueRows(model, { part, names }, emptyCatalog)
      const folded = (names: string[]): Source => ({ ...valuesOf(names), claims: range, isFolded: true })
      const found = await reader.read<FeatureStats>([folded(ofPart.slice(at, at + featuresAtOnce))], ([values]) =>
        selectStats(values as string, {
          isDead: tombstones.length > 0 ? isDead : undefined,
          areNamed: areNamed(versionNames),
        }),
      )
      if (found.length === 0) continue
      stats.push(...found)
      const undecided = found.filter(isUndecided).map((it) => it.name)
      const different =
        undecided.length === 0
          ? []
          : await reader.read<Different>([folded(undecided)], ([values]) => selectDifferent(values as string))
      const differentOf = new Map(different.map((it) => [it.name, it]))
      const grids = found.map((it) =>
        toGrid(it, differentOf.get(it.name), last && findRolled(last, { part, name: it.name })?.center),
      )
      const ways = waysOfCounting(grids, versionNames)
      const isWhole = await insert(
        reader,
        ways.map(({ grids, columns }) => inRange({ ...valuesOf(grids.map((it) => it.name)), columns })),
        (values) => `INSERT INTO ${database}.${table} (${version}${cellColumns}, rollup, weight, least, most)
            SELECT ${version}${cellColumns}, ${id}, weight, least, most
            FROM (SELECT ${model.modelId} AS model_id, ${eventKinds[model.kind]} AS kind, ${code} AS part, *
              FROM (${ways.map(({ select }, at) => select(values[at] as string)).join(' UNION ALL ')}))`,
      )
      if (!isWhole) return 'merged meanwhile'
    }
  }
  const ofRollup = `${ofModel(model)} AND rollup = ${id}`
  if (hasVersions) {
    await insertRollupValues(clickhouse, id, `${database}.${rollupVersionValuesTable} WHERE ${ofRollup}`)
  }
  const [stored] = await clickhouse.rows<{ n: string }>(
    `SELECT sum(weight) AS n FROM ${database}.${rollupValuesTable} WHERE ${ofRollup}`,
  )
  // Rows were added meanwhile: the next round sums them up too.
  if (Number(stored?.n ?? 0) !== sum(stats, (it) => Number(it.all) - Number(it.dead))) return 'left'
  const times = [...stats, ...versions].filter((it) => it.all !== '0')
  await publishRollup(clickhouse, model, {
    id,
    level: 0,
    low,
    high,
    rows: { events: sum(versions, (it) => Number(it.all)), event_values: sum(stats, (it) => Number(it.all)) },
    tombstones: tombstones.length,
    first: Math.min(...times.map((it) => Number(it.first))),
    last: Math.max(...times.map((it) => Number(it.last))),
    versions: versions.map((it) => ({
      version: it.version,
      events: Number(it.events),
      first: BigInt(it.first),
      last: BigInt(it.last),
      received: BigInt(it.received),
    })),
  })
  return 'made'
}

const sum = <T>(all: T[], toNumber: (it: T) => number) => all.reduce((total, it) => total + toNumber(it), 0)
