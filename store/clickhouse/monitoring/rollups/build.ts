import { onCluster, toLocal } from '../../cluster/layout.ts'
import type { ClickHouse } from '../../connection.ts'
import { listParts } from '../../parts.ts'
import { categoriesMax, hashOfCategory, isNumber, literal, rounded } from '../features.ts'
import { readOnce, runOnce, type Source, toFinal } from '../read-once.ts'
import { findGround, placeOf, toEvents, toValues } from '../scope.ts'
import {
  eventFeaturesTable,
  eventKinds,
  eventsTable,
  eventValuesTable,
  type ValuePart,
  valueParts,
  voidedEventsTable,
} from '../tables.ts'
import { joinRollups } from './joins.ts'
import { createRollupId, dropRollup, insertRollupValues, publishRollup, type RolledModel } from './publish.ts'
import type { Rollup } from './rollup.ts'
import { chooseRollups, findRolledFeatures, keepStanding, listRollups, toFeatureKey } from './rollups.ts'
import {
  cellColumns,
  rollupFeaturesTable,
  rollupsTable,
  rollupValuesTable,
  rollupVersionValuesTable,
} from './tables.ts'

/** When and how rollups are made. */
export type RollupLimits = {
  /** Events that came so long ago are settled: few will come between them. */
  settledMs: number
  /** Fewer events than this are read as they are. */
  eventsMin: number
  /** A rollup is made of so many events at most; larger ones are made of rollups. */
  eventsMax: number
}

export const rollupLimits: RollupLimits = { settledMs: 300_000, eventsMin: 100_000, eventsMax: 100_000 }

/** A feature with more different numbers than this in a rollup has them rounded. */
const numbersMax = 10_000
/** With more events voided than this in its range, no rollup is made. */
const voidedMax = 1_000
const featuresAtOnce = 10

/**
 * Makes rollups of what came since the last one, makes stale ones anew, and larger ones of small ones, so that the events of
 * a model are in a few of them however many there are. Resolves with how many were made; calling it again goes on.
 */
export async function rollUp(
  clickhouse: ClickHouse,
  model: RolledModel,
  limits: RollupLimits,
  stop?: AbortSignal,
): Promise<number> {
  await dropStale(clickhouse, model)
  for (let made = 0; ; made++) {
    made += await joinRollups(clickhouse, model)
    if (stop?.aborted) return made
    const range = await findRange(clickhouse, model, limits)
    if (!range) return made
    let outcome = await buildRollup(clickhouse, model, { range, insert: insertOnce }, stop)
    if (outcome === 'disturbed') {
      outcome = await buildRollup(clickhouse, model, { range, insert: insertFinal }, stop)
    }
    if (outcome !== 'made') return made
  }
}

/** Inserts what comes of the rows of a source; false when a merge came between, and it may be there twice or in part. */
type Insert = (clickhouse: ClickHouse, source: Source, toStatement: (table: string) => string) => Promise<boolean>

const insertOnce: Insert = async (clickhouse, source, toStatement) => {
  let attempts = 0
  await runOnce(clickhouse, [source], async ([table]) => {
    if (attempts++ === 0) await clickhouse.command(toStatement(table as string))
  })
  return attempts === 1
}

/** Costs many times as much, and no merge can come between. */
const insertFinal: Insert = async (clickhouse, source, toStatement) => {
  await clickhouse.command(toStatement(toFinal(clickhouse, [source])[0] as string))
  return true
}

const listOf = (clickhouse: ClickHouse, { modelId, kind }: RolledModel) =>
  listRollups(clickhouse, { modelId, kind: eventKinds[kind] })

type Range = { low: bigint; high: bigint }

/** The next numbers to be summed up, of those in no rollup: as many as have `eventsMax` events, if they are settled. */
async function findRange(
  clickhouse: ClickHouse,
  model: RolledModel,
  { settledMs, eventsMin, eventsMax }: RollupLimits,
): Promise<Range | undefined> {
  const rollups = chooseRollups(await listOf(clickhouse, model), () => true)
  let low = 0n
  for (const next of [...rollups, undefined]) {
    if (next === undefined || low < next.low) {
      const before = next === undefined ? '' : ` AND claim < ${next.low}`
      const from = `FROM ${clickhouse.database}.${eventsTable.name}
        WHERE model_id = ${model.modelId} AND kind = ${eventKinds[model.kind]} AND claim >= ${low}${before}`
      // The next events are found by the order they lie in, without a look at those after them.
      const [found] = await clickhouse.rows<{ n: string; high: string; all: string }>(
        `SELECT sumIf(c, isIn) AS n, maxIf(claim, isIn) AS high, sum(c) AS all FROM (
           SELECT claim, c, newest <= ${Date.now() - settledMs} AND (total <= ${eventsMax} OR total = c) AS isIn FROM (
             SELECT claim, c, sum(c) OVER (ORDER BY claim) AS total, max(latest) OVER (ORDER BY claim) AS newest FROM (
               SELECT claim, count() AS c, max(received) AS latest ${from}
               AND claim <= (SELECT max(claim) FROM (SELECT claim ${from} ORDER BY claim LIMIT ${eventsMax + 1}))
               GROUP BY claim)))`,
      )
      // What is left between two rollups is closed however small it is, or else they could not be joined.
      const isAll = next !== undefined && found?.n === found?.all
      if (found && isAll) return { low, high: (next as Rollup).low - 1n }
      if (found && Number(found.n) >= (next ? 1 : eventsMin)) return { low, high: BigInt(found.high) }
      if (next === undefined) return undefined
    }
    low = next.high + 1n
  }
  return undefined
}

/** Sums up all events of a range, or leaves it for another time. What comes to it meanwhile makes the rollup stale, and nothing else. */
async function buildRollup(
  clickhouse: ClickHouse,
  model: RolledModel,
  { range, insert }: { range: Range; insert: Insert },
  stop: AbortSignal | undefined,
): Promise<'made' | 'left' | 'disturbed'> {
  const { database } = clickhouse
  const ofModel = `model_id = ${model.modelId} AND kind = ${eventKinds[model.kind]}`
  const isIn = ` AND claim BETWEEN ${range.low} AND ${range.high}`
  const tombstones = await clickhouse.rows<{ claim: string; place: number }>(
    `SELECT DISTINCT claim, place FROM ${database}.${voidedEventsTable.name} WHERE ${ofModel}${isIn} LIMIT ${voidedMax + 1}`,
  )
  if (tombstones.length > voidedMax) return 'left'
  const voided =
    tombstones.length === 0 ? 'false' : `(claim, place) IN (${tombstones.map((it) => `(${it.claim}, ${it.place})`)})`
  const narrow = (source: Source, whole: string): Source => ({
    ...source,
    whole,
    where: source.where + isIn,
    columns: `*, ${voided} AS is_voided`,
  })
  const ground = { voided: '', rollups: [] }

  const versions = await readOnce<Record<'version' | 'events' | 'all' | 'first' | 'last' | 'received', string>>(
    clickhouse,
    [narrow(toEvents(model, ground), ofModel + isIn)],
    ([events]) => `SELECT version, countIf(NOT is_voided) AS events, count() AS all, min(timestamp) AS first,
        max(timestamp) AS last, max(received) AS received FROM ${events} GROUP BY version`,
  )
  const features = await clickhouse.rows<{ part: number; name: string }>(
    `SELECT DISTINCT part, name FROM ${database}.${eventFeaturesTable} WHERE ${ofModel} ORDER BY part, name`,
  )
  const last = (await listOf(clickhouse, model)).at(-1)
  const lastFeatures = last
    ? (await findRolledFeatures(clickhouse, { ...model, kind: eventKinds[model.kind] }, [last])).get(last)
    : undefined

  const id = createRollupId()
  const hasVersions = versions.length > 1
  const [table, version] = hasVersions ? [rollupVersionValuesTable, 'version, '] : [rollupValuesTable, '']
  const looks: Look[] = []
  for (const [part, code] of Object.entries(valueParts) as [ValuePart, number][]) {
    const ofPart = features.filter((it) => it.part === code).map((it) => it.name)
    for (let at = 0; at < ofPart.length; at += featuresAtOnce) {
      if (stop?.aborted) return 'left'
      const some = { part, names: ofPart.slice(at, at + featuresAtOnce) }
      // Whatever their names: what parts have in common is looked up once.
      const source = narrow(toValues(model, some, ground), `${ofModel}${isIn} AND part = ${code}`)
      const found = await readOnce<Look>(clickhouse, [source], ([values]) => lookAt(values as string))
      if (found.length === 0) continue
      looks.push(...found)
      const grids = found.map((it) => toGrid(it, lastFeatures?.get(toFeatureKey(code, it.name))?.center))
      const isWhole = await insert(
        clickhouse,
        source,
        (values) => `INSERT INTO ${database}.${table} (${version}${cellColumns}, rollup, weight, least, most)
          SELECT ${version}${cellColumns}, ${id}, weight, least, most
          FROM (SELECT ${model.modelId} AS model_id, ${eventKinds[model.kind]} AS kind, ${code} AS part, *
            FROM (${selectCounts(values, grids)}))`,
      )
      if (!isWhole) return 'disturbed'
    }
  }
  if (hasVersions)
    await insertRollupValues(
      clickhouse,
      id,
      `${database}.${rollupVersionValuesTable} WHERE ${ofModel} AND rollup = ${id}`,
    )
  const [stored] = await clickhouse.rows<{ n: string }>(
    `SELECT sum(weight) AS n FROM ${database}.${rollupValuesTable} WHERE ${ofModel} AND rollup = ${id}`,
  )
  // Something came meanwhile: next time.
  if (Number(stored?.n ?? 0) !== sum(looks, (it) => Number(it.all) - Number(it.voided))) return 'left'
  const times = [...looks, ...versions].filter((it) => it.all !== '0')
  await publishRollup(clickhouse, model, {
    id,
    level: 0,
    ...range,
    rows: { events: sum(versions, (it) => Number(it.all)), event_values: sum(looks, (it) => Number(it.all)) },
    voided: tombstones.length,
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

type Look = Record<'name' | 'all' | 'voided' | 'first' | 'last' | 'numbers' | 'categories', string> & {
  sample: number[]
}

/** What features are like: how many different values they have, and some of their numbers, in order. */
const lookAt = (values: string) => `SELECT name, count() AS all, countIf(is_voided) AS voided,
    min(timestamp) AS first, max(timestamp) AS last,
    uniqIf(number, ${isNumber}) AS numbers, uniqIf(text, type = 4) AS categories,
    arraySort(groupArraySampleIf(999, 1)(number, ${isNumber} AND isFinite(number))) AS sample FROM ${values} GROUP BY name`

/** How the values of a feature are counted. */
type Grid = {
  name: string
  /** Around which numbers are rounded; undefined when each is counted. */
  center: number | undefined
  isHashed: boolean
}

/** Many different numbers are rounded around `before`, if that is still among them. */
function toGrid({ name, sample, numbers, categories }: Look, before: number | undefined): Grid {
  const at = (share: number) => sample[Math.floor(share * (sample.length - 1))] ?? 0
  const [low, middle, high] = [at(0.25), at(0.5), at(0.75)]
  const isNear = before !== undefined && Math.abs(before - middle) <= 8 * (high - low)
  const isHashed = Number(categories) > categoriesMax
  if (Number(numbers) <= numbersMax) return { name, center: undefined, isHashed }
  return { name, center: isNear ? before : toCenter(middle, high - low), isHashed }
}

/** A number near the middle that events of the same kind have in common, so that what was rounded can be compared. */
function toCenter(middle: number, spread: number): number {
  const step = 2 ** Math.ceil(Math.log2(2 * spread))
  const center = Math.round(middle / step) * step
  return Number.isFinite(center) ? center : middle
}

/** Counts the values of features by version. */
function selectCounts(values: string, grids: Grid[]): string {
  const f = placeOf(grids.map((it) => it.name))
  const centers = `[${grids.map((it) => literal(it.center ?? 0))}]::Array(Float64)`
  const isRounded = `[${grids.map((it) => it.center !== undefined)}][f + 1]`
  const isHashed = `[${grids.map((it) => it.isHashed)}][f + 1]`
  const x = `if(${isRounded} AND ${isNumber} AND isFinite(number), ${rounded(`${centers}[f + 1]`)}, number)`
  const hash = hashOfCategory.replace('category', 'toString(text)')
  const text = `multiIf(${isRounded} AND ${isNumber}, '', ${isHashed} AND type = 4, ${hash}, toString(text))`
  // Of all that was rounded only the bounds of the whole are kept: those of each cell would take as much room as the values.
  const ofAlike = 'OVER (PARTITION BY f, version, type IN (1, 2) AND isFinite(x))'
  return `SELECT name, version, type, x AS number, t AS text, weight,
      toUInt8(${isRounded} AND type IN (1, 2) AND isFinite(x)) AS is_rounded,
      if(${isRounded}, ${centers}[f + 1], 0) AS center, toUInt8(${isHashed} AND type = 4) AS is_hashed,
      if(low = min(low) ${ofAlike}, low, x) AS least, if(high = max(high) ${ofAlike}, high, x) AS most
    FROM (
      SELECT name, f, version, type, x, t, count() AS weight, min(value) AS low, max(value) AS high
      FROM (
        SELECT name, f, version, type, number AS value, ${x} AS x, ${text} AS t
        FROM (SELECT *, ${f} AS f FROM ${values}) WHERE NOT is_voided)
      GROUP BY name, f, version, type, x, t)`
}

/** Drops the rollups that something came to, or that do not know of all that was voided. */
async function dropStale(clickhouse: ClickHouse, model: RolledModel): Promise<void> {
  const all = await listOf(clickhouse, model)
  const widest = chooseRollups(all, () => true)
  if (await areStanding(clickhouse, model, widest)) return
  for (const it of all) {
    if (!(await areStanding(clickhouse, model, [it]))) await dropRollup(clickhouse, model, it)
  }
}

async function areStanding(clickhouse: ClickHouse, model: RolledModel, rollups: Rollup[]): Promise<boolean> {
  if (rollups.length === 0) return true
  const { rollups: known } = await findGround(clickhouse, model)
  if (!rollups.every((it) => known.some(({ id }) => id === it.id))) return false
  for (const table of [eventsTable, eventValuesTable]) {
    const parts = (await listParts(clickhouse, [table.name])).get(table.name) ?? []
    const whole = { ...model, kind: eventKinds[model.kind], table, parts, known }
    const standing = await keepStanding(clickhouse, rollups, whole)
    // Parts that went away say nothing; the next round looks again.
    if (standing && standing.rollups.length < rollups.length) return false
  }
  return true
}

/** Takes away what was dropped a while ago, and then also what nobody finished. */
export async function sweepRollups(clickhouse: ClickHouse): Promise<void> {
  const { database } = clickhouse
  const now = Date.now()
  const dropped = await listIds(
    clickhouse,
    `SELECT id FROM ${database}.${rollupsTable} FINAL WHERE dropped BETWEEN 1 AND ${now - droppedKeptMs}`,
  )
  // A deletion has its price even when it finds nothing.
  if (dropped.length === 0) return
  const unfinished = await listIds(
    clickhouse,
    `SELECT DISTINCT rollup AS id FROM ${database}.${rollupValuesTable}
     WHERE rollup < ${BigInt(now - unfinishedKeptMs) << 20n} AND rollup NOT IN (SELECT id FROM ${database}.${rollupsTable})`,
  )
  // By their numbers: replicas, which look for themselves what to delete, must not come to different ends.
  const remove = (table: string, condition: string) =>
    clickhouse.command(
      `DELETE FROM ${database}.${toLocal(clickhouse, table)}${onCluster(clickhouse)} WHERE ${condition}`,
    )
  for (const table of [rollupValuesTable, rollupVersionValuesTable, rollupFeaturesTable]) {
    await remove(table, `rollup IN (${[...dropped, ...unfinished].join(', ')})`)
  }
  await remove(rollupsTable, `id IN (${dropped.join(', ')})`)
}

/** So many are swept away at once; more wait for the next time. */
const sweptMax = 5_000

async function listIds({ rows }: ClickHouse, query: string): Promise<string[]> {
  return (await rows<{ id: string }>(`${query} LIMIT ${sweptMax}`)).map((it) => it.id)
}

/** Longer than a read takes, and than making a rollup. */
const droppedKeptMs = 600_000
const unfinishedKeptMs = 86_400_000
