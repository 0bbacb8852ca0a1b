import { randomBytes } from 'node:crypto'
import { onCluster, toLocal } from './cluster.ts'
import type { ClickHouse } from './connection.ts'
import { type EventScope, type FeatureName, findGround, quote, toEvents, toValues } from './event-scope.ts'
import { categoriesMax, hashOfCategory, isNumber, literal, rounded } from './feature-reads.ts'
import {
  type EventKind,
  eventFeaturesTable,
  eventKinds,
  eventsTable,
  eventValuesTable,
  type ValuePart,
  valueParts,
  voidedEventsTable,
} from './monitoring-tables.ts'
import { listParts } from './parts.ts'
import { readOnce, runOnce, type Source } from './read-once.ts'
import { insertRollupFeatures, rollupFeaturesTable, rollupsTable, rollupValuesTable } from './rollup-tables.ts'
import {
  chooseRollups,
  findRolledFeatures,
  keepStanding,
  listRollups,
  type RolledVersion,
  type Rollup,
  toFeatureKey,
} from './rollups.ts'

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

type Kind = Pick<EventScope, 'modelId' | 'kind'>

/**
 * Makes rollups of what came since the last one, makes stale ones anew, and larger ones of small ones, so that the events of
 * a model are in some ten of them however many there are. Resolves with how many were made; calling it again goes on.
 */
export async function rollUp(
  clickhouse: ClickHouse,
  model: Kind,
  limits: RollupLimits,
  stop?: AbortSignal,
): Promise<number> {
  await dropStale(clickhouse, model)
  let made = 0
  for (;;) {
    if (stop?.aborted) return made
    const range = await findRange(clickhouse, model, limits)
    if (!range || !(await buildRollup(clickhouse, model, range, stop))) return made
    made++
    while (await joinLast(clickhouse, model, limits)) made++
  }
}

const listOf = (clickhouse: ClickHouse, { modelId, kind }: Kind) =>
  listRollups(clickhouse, { modelId, kind: eventKinds[kind] })

type Range = { low: bigint; high: bigint }

/** The next numbers to be summed up, of those in no rollup: as many as have `eventsMax` events, if they are settled. */
async function findRange(
  clickhouse: ClickHouse,
  model: Kind,
  { settledMs, eventsMin, eventsMax }: RollupLimits,
): Promise<Range | undefined> {
  const rollups = chooseRollups(await listOf(clickhouse, model), () => true)
  let low = 0n
  for (const next of [...rollups, undefined]) {
    if (next === undefined || low < next.low) {
      const before = next === undefined ? '' : ` AND claim < ${next.low}`
      const [found] = await clickhouse.rows<{ n: string; high: string; all: string }>(
        `SELECT sumIf(c, isIn) AS n, maxIf(claim, isIn) AS high, sum(c) AS all FROM (
           SELECT claim, c, newest <= ${Date.now() - settledMs} AND (total <= ${eventsMax} OR total = c) AS isIn FROM (
             SELECT claim, c, sum(c) OVER (ORDER BY claim) AS total, max(latest) OVER (ORDER BY claim) AS newest FROM (
               SELECT claim, count() AS c, max(received) AS latest FROM ${clickhouse.database}.${eventsTable.name}
               WHERE model_id = ${model.modelId} AND kind = ${eventKinds[model.kind]} AND claim >= ${low}${before}
               GROUP BY claim ORDER BY claim LIMIT ${eventsMax})))`,
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

/** Sums up all events of a range; false when nothing came of it. What comes to it meanwhile makes the rollup stale, and nothing else. */
async function buildRollup(
  clickhouse: ClickHouse,
  model: Kind,
  range: Range,
  stop: AbortSignal | undefined,
): Promise<boolean> {
  const { database } = clickhouse
  const ofModel = `model_id = ${model.modelId} AND kind = ${eventKinds[model.kind]}`
  const isIn = ` AND claim BETWEEN ${range.low} AND ${range.high}`
  const voids = await clickhouse.rows<{ claim: string; place: number }>(
    `SELECT DISTINCT claim, place FROM ${database}.${voidedEventsTable.name} WHERE ${ofModel}${isIn} LIMIT ${voidedMax + 1}`,
  )
  if (voids.length > voidedMax) return false
  const voided = voids.length === 0 ? 'false' : `(claim, place) IN (${voids.map((it) => `(${it.claim}, ${it.place})`)})`
  const narrow = (source: Source): Source => ({
    ...source,
    whole: source.whole + isIn,
    where: source.where + isIn,
    columns: `*, ${voided} AS is_voided`,
  })
  const ground = { voided: '', rollups: [] }

  const versions = await readOnce<Record<'version' | 'events' | 'all' | 'first' | 'last' | 'received', string>>(
    clickhouse,
    [narrow(toEvents(model, ground))],
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
  const partNames = Object.fromEntries(Object.entries(valueParts).map(([name, code]) => [code, name as ValuePart]))

  const id = createId()
  const looks: Look[] = []
  for (let at = 0; at < features.length; at += featuresAtOnce) {
    if (stop?.aborted) return false
    const some = features.slice(at, at + featuresAtOnce)
    const sources = some.map(({ part, name }): Source => {
      const feature: FeatureName = { part: partNames[part] as ValuePart, name }
      return narrow(toValues(model, feature, ground))
    })
    const found = await readOnce<Look>(clickhouse, sources, (tables) =>
      tables.map((table, f) => lookAt(table, f)).join(' UNION ALL '),
    )
    looks.push(...found)
    const withRows = found.filter((it) => it.all !== '0')
    await runOnce(
      clickhouse,
      withRows.map(({ f }) => sources[Number(f)] as Source),
      async (tables) => {
        if (tables.length === 0) return
        const selects = withRows.map((look, nth) => {
          const { part, name } = some[Number(look.f)] as (typeof some)[number]
          const before = lastFeatures?.get(toFeatureKey(part, name))?.center
          return `SELECT ${part} AS part, ${quote(name)} AS name, * FROM (${selectCounts(tables[nth] as string, look, before)})`
        })
        await clickhouse.command(
          `INSERT INTO ${database}.${rollupValuesTable}
             (model_id, kind, part, name, rollup, version, type, number, text, weight, is_rounded, center, is_hashed, least, most)
           SELECT ${model.modelId}, ${eventKinds[model.kind]}, part, name, ${id}, version, type, number, text, weight,
             is_rounded, center, is_hashed, least, most
           FROM (${selects.join(' UNION ALL ')})`,
        )
      },
    )
  }
  const [stored] = await clickhouse.rows<{ n: string }>(
    `SELECT sum(weight) AS n FROM ${database}.${rollupValuesTable} WHERE ${ofModel} AND rollup = ${id}`,
  )
  // Something came meanwhile, or a part went away and its rows were inserted twice: next time.
  if (Number(stored?.n ?? 0) !== sum(looks, (it) => Number(it.all) - Number(it.voided))) return false
  const times = [...looks, ...versions].filter((it) => it.all !== '0')
  await publishRollup(clickhouse, model, {
    id,
    ...range,
    rows: { events: sum(versions, (it) => Number(it.all)), event_values: sum(looks, (it) => Number(it.all)) },
    voided: voids.length,
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
  return true
}

const sum = <T>(all: T[], toNumber: (it: T) => number) => all.reduce((total, it) => total + toNumber(it), 0)

/** The time it was made at, which tells what nobody finished, and a number that no other one has. */
const createId = () => String((BigInt(Date.now()) << 20n) | BigInt(randomBytes(4).readUInt32BE() & 0xfffff))

type Look = Record<'f' | 'all' | 'voided' | 'first' | 'last' | 'numbers' | 'categories', string> & { sample: number[] }

/** What a feature is like: how many different values it has, and some of its numbers, in order. */
const lookAt = (table: string, f: number) => `SELECT ${f} AS f, count() AS all, countIf(is_voided) AS voided,
    min(timestamp) AS first, max(timestamp) AS last,
    uniqIf(number, ${isNumber}) AS numbers, uniqIf(text, type = 4) AS categories,
    arraySort(groupArraySampleIf(999, 1)(number, ${isNumber} AND isFinite(number))) AS sample FROM ${table}`

/** Counts the values of a feature; many different numbers are rounded around `before`, if that is still among them. */
function selectCounts(table: string, { sample, numbers, categories }: Look, before: number | undefined): string {
  const at = (share: number) => sample[Math.floor(share * (sample.length - 1))] ?? 0
  const [low, middle, high] = [at(0.25), at(0.5), at(0.75)]
  const isNear = before !== undefined && Math.abs(before - middle) <= 8 * (high - low)
  const center = isNear ? before : middle
  const isRounded = Number(numbers) > numbersMax
  const isHashed = Number(categories) > categoriesMax
  const isFiniteNumber = `${isNumber} AND isFinite(number)`
  const x = isRounded ? `if(${isFiniteNumber}, ${rounded(center)}, number)` : 'number'
  const texts = [
    ...(isRounded ? [`${isNumber}, ''`] : []),
    ...(isHashed ? [`type = 4, ${hashOfCategory.replace('category', 'toString(text)')}`] : []),
  ]
  const text = texts.length === 0 ? 'text' : `multiIf(${texts.join(', ')}, toString(text))`
  // Of all that was rounded only the bounds of the whole are kept: those of each cell would take as much room as the values.
  const ofAlike = 'OVER (PARTITION BY version, type IN (1, 2) AND isFinite(x))'
  return `SELECT version, type, x AS number, t AS text, weight,
      toUInt8(${isRounded ? 'type IN (1, 2) AND isFinite(x)' : '0'}) AS is_rounded, ${literal(isRounded ? center : 0)} AS center,
      toUInt8(${isHashed ? 'type = 4' : '0'}) AS is_hashed,
      if(low = min(low) ${ofAlike}, low, x) AS least, if(high = max(high) ${ofAlike}, high, x) AS most
    FROM (
      SELECT version, type, x, t, count() AS weight, min(value) AS low, max(value) AS high
      FROM (SELECT version, type, number AS value, ${x} AS x, ${text} AS t FROM ${table} WHERE NOT is_voided)
      GROUP BY version, type, x, t)`
}

/** Publishes a rollup whose values are there. */
async function publishRollup(clickhouse: ClickHouse, model: Kind, rollup: Rollup): Promise<void> {
  const where = `model_id = ${model.modelId} AND kind = ${eventKinds[model.kind]} AND rollup = ${rollup.id}`
  await clickhouse.command(insertRollupFeatures(clickhouse.database, where))
  await insertRollup(clickhouse, model, rollup, 0)
}

async function insertRollup(
  { command, database }: ClickHouse,
  model: Kind,
  rollup: Rollup,
  dropped: number,
): Promise<void> {
  const { versions } = rollup
  const values = [
    ...[model.modelId, eventKinds[model.kind], rollup.low, rollup.high, rollup.id, dropped],
    ...[rollup.rows.events, rollup.rows.event_values, rollup.voided, rollup.first, rollup.last],
    `[${versions.map((it) => quote(it.version))}]`,
    ...(['events', 'first', 'last', 'received'] as const).map((name) => `[${versions.map((it) => it[name])}]`),
  ]
  await command(`INSERT INTO ${database}.${rollupsTable} (model_id, kind, low, high, id, dropped, event_rows, value_rows, voided,
      first, last, versions, counts, firsts, lasts, received) VALUES (${values.join(', ')})`)
}

/** Makes one of the last two rollups when they are of about one size, so that there are few however many events there are. */
async function joinLast(clickhouse: ClickHouse, model: Kind, { eventsMax }: RollupLimits): Promise<boolean> {
  const all = await listOf(clickhouse, model)
  const [a, b] = chooseRollups(all, () => true).slice(-2)
  if (!a || !b || a.high + 1n !== b.low || 2 * countOf(b) < countOf(a)) return false
  const id = createId()
  const { database } = clickhouse
  const columns = 'model_id, kind, part, name, version, type, number, text, is_rounded, center, is_hashed'
  await clickhouse.command(
    `INSERT INTO ${database}.${rollupValuesTable} (${columns}, rollup, weight, least, most)
     SELECT ${columns}, ${id}, sum(weight), min(least), max(most) FROM ${database}.${rollupValuesTable}
     WHERE model_id = ${model.modelId} AND kind = ${eventKinds[model.kind]} AND rollup IN (${a.id}, ${b.id}) GROUP BY ${columns}`,
  )
  await publishRollup(clickhouse, model, {
    id,
    low: a.low,
    high: b.high,
    rows: {
      events: countOf(a) + countOf(b),
      event_values: (a.rows.event_values ?? 0) + (b.rows.event_values ?? 0),
    },
    voided: a.voided + b.voided,
    first: Math.min(a.first, b.first),
    last: Math.max(a.last, b.last),
    versions: joinVersions([...a.versions, ...b.versions]),
  })
  // Windows of time are made of those that have about as many events as one may have at first, 8 times as many, 64 times.
  const isKept = (it: Rollup) => Math.round(Math.log2(countOf(it) / eventsMax)) % 3 === 0
  for (const it of [a, b]) if (!isKept(it)) await insertRollup(clickhouse, model, it, Date.now())
  return true
}

const countOf = ({ rows }: Rollup) => rows.events ?? 0

function joinVersions(versions: RolledVersion[]): RolledVersion[] {
  return [...Map.groupBy(versions, (it) => it.version)].map(([version, its]) => ({
    version,
    events: sum(its, (it) => it.events),
    first: its.reduce((least, it) => (it.first < least ? it.first : least), its[0]?.first ?? 0n),
    last: its.reduce((most, it) => (it.last > most ? it.last : most), 0n),
    received: its.reduce((most, it) => (it.received > most ? it.received : most), 0n),
  }))
}

/** Drops the rollups that something came to, or that do not know of all that was voided. */
async function dropStale(clickhouse: ClickHouse, model: Kind): Promise<void> {
  const all = await listOf(clickhouse, model)
  const widest = chooseRollups(all, () => true)
  if (await areStanding(clickhouse, model, widest)) return
  for (const it of all) {
    if (!(await areStanding(clickhouse, model, [it]))) await insertRollup(clickhouse, model, it, Date.now())
  }
}

async function areStanding(clickhouse: ClickHouse, model: Kind, rollups: Rollup[]): Promise<boolean> {
  if (rollups.length === 0) return true
  const { rollups: known } = await findGround(clickhouse, model)
  if (!rollups.every((it) => known.some(({ id }) => id === it.id))) return false
  for (const table of [eventsTable, eventValuesTable]) {
    const parts = (await listParts(clickhouse, [table.name])).get(table.name) ?? []
    const standing = await keepStanding(clickhouse, rollups, { ...model, kind: eventKinds[model.kind], table, parts })
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
  for (const table of [rollupValuesTable, rollupFeaturesTable]) {
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
