import { afterAll, beforeAll, expect, it } from 'vitest'
import type { StoreUrls } from '../../cli/settings.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { literal, round, rounded } from '../../store/clickhouse/monitoring/expressions.ts'
import { createEventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { rollUp, rollupLimits } from '../../store/clickhouse/monitoring/rollups/build.ts'
import { sweepRollups } from '../../store/clickhouse/monitoring/rollups/drop.ts'
import { chooseRollups, listRollups } from '../../store/clickhouse/monitoring/rollups/rollups.ts'
import { rollupValuesTable, wholeLevel } from '../../store/clickhouse/monitoring/rollups/tables.ts'
import { type Stored, storedEvents, storedValues } from '../../store/clickhouse/monitoring/stored.ts'
import { listParts } from '../../store/clickhouse/parts.ts'
import { openTwoUsers, type TwoUsers } from '../api/accounts/two-users.ts'
import { eventually } from '../kit/eventually.ts'
import { openOwnStores, uniqueName } from '../kit/service.ts'
import { openStoredEvents, type Scalar, type StoredEvent, type StoredEvents } from './stored-events.ts'

/** What is summed up, and what is not yet: reads see the same events whichever it is. */
let service: TwoUsers
let stored: StoredEvents
let stores: StoreUrls
beforeAll(async () => {
  // What other tests write would be merged with what is counted here, and a worker would make rollups too.
  stores = await openOwnStores('postgres')
  service = await openTwoUsers({ stores, roles: new Set(['api']) })
  stored = openStoredEvents(stores)
})
afterAll(() => Promise.all([service?.close(), stored?.close()]))

const hour = 3_600_000
const start = 480_000 * hour
const limits = { ...rollupLimits, settledMs: 0, eventsMin: 1, eventsMax: 1_000 }

async function read(path: string, query: Record<string, string | number>): Promise<Record<string, unknown>> {
  const all = { workspaceName: service.workspaceName, ...query } as Record<string, string>
  const answer = await service.client.get(`/mpm/v2/${path}?${new URLSearchParams(all)}`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

type Values = Record<string, Scalar>
const toEvents = (values: Values[], timestamp = start, version = '1'): StoredEvent[] =>
  values.map((features, at) => ({ predictionId: uniqueName('p'), timestamp: timestamp + at, version, features }))

/** Values of every type, some of them missing. */
const someValues = (count: number, from = 0): Values[] =>
  Array.from({ length: count }, (_, at) => {
    const n = from + at
    return {
      x: n % 11 === 0 ? null : Math.sin(n) * 10,
      count: n % 5,
      flag: n % 2 === 0,
      country: ['NL', 'DE', 'FR'][n % 3] as string,
    }
  })

/** The mean of the same numbers in another order differs in its last digits. */
const withoutLastDigits = (all: unknown): unknown =>
  JSON.parse(JSON.stringify(all), (_, it) => (typeof it === 'number' ? Number(it.toPrecision(10)) : it))

async function aModel(reference = toEvents(someValues(300))) {
  const [modelName, dataSetName] = [uniqueName('model'), uniqueName('reference')]
  const id = await stored.model(service.workspaceName, modelName)
  const dataSet = await stored.model(service.workspaceName, dataSetName)
  await stored.write(dataSet, 'TRAINING_EVENTS', reference)
  await stored.reference(dataSet, modelName)
  const model = { modelId: id, kind: 'EVENTS' } as const
  return {
    modelName,
    dataSet,
    id,
    model,
    roll: () => rollUp(stored.eventReader, model, limits),
    write: (events: StoredEvent[]) => stored.write(id, 'EVENTS', events),
    /** All that reads say. */
    async readAll(): Promise<unknown> {
      const query = { modelName, from: start, to: start + 4 * hour, interval: hour }
      const of = (feature: string) => read('distribution', { ...query, feature })
      const all = {
        features: await read('features', { modelName }),
        ofVersion: await read('features', { modelName, modelVersion: '2' }),
        numeric: await read('distribution', { modelName, feature: 'x' }),
        distributions: [await of('x'), await of('count'), await of('flag'), await of('country')],
        drift: await read('drift', { modelName }),
        windows: await read('drift', query),
      }
      return withoutLastDigits(all)
    },

    /** All windows of all features, which is enough where the way of reading is not the point. */
    async readFeatures(): Promise<unknown> {
      const query = { modelName, from: start, to: start + 4 * hour, interval: hour }
      const all = {
        features: await read('features', { modelName }),
        numeric: await read('distribution', { ...query, feature: 'x' }),
        categories: await read('distribution', { ...query, feature: 'country' }),
      }
      return withoutLastDigits(all)
    },

    /** How many events are in rollups that are current. */
    async countCurrent(what: Stored = storedValues) {
      const all = chooseRollups(await listRollups(stored.clickhouse, model), () => true)
      const { rollups } = await eventually(async () => {
        const parts = await listParts(
          stored.clickhouse,
          what.tables.map((it) => it.name),
        )
        const rows = { ...what, model, parts, known: all }
        // Other tests write to these tables too, so parts may go away.
        return (await stored.eventReader.findCurrent(all, rows)) ?? expect.fail('parts went away')
      })
      return rollups.reduce((sum, it) => sum + (it.rows.events ?? 0), 0)
    },
  }
}

it('what is summed up reads as it did before, in windows, by version and beside the reference', async () => {
  const model = await aModel()
  await model.write(toEvents(someValues(400)))
  await model.write(toEvents(someValues(400, 7), start + hour, '2'))
  await model.write(toEvents(someValues(300, 9), start + 3 * hour, '1'))
  const before = await model.readAll()
  expect(await model.roll()).toBeGreaterThan(1)
  expect(await model.countCurrent()).toBe(1_100)
  expect(await model.readAll()).toEqual(before)
})

it('so do events of more versions than a statement can name', async () => {
  const model = await aModel()
  await model.write(toEvents(someValues(400)).map((it, at) => ({ ...it, version: String(at % 120) })))
  const ofVersion = () => read('features', { modelName: model.modelName, modelVersion: '7' })
  const before = [await model.readFeatures(), await ofVersion()]
  expect(await model.roll()).toBe(1)
  expect(await model.countCurrent()).toBe(400)
  expect([await model.readFeatures(), await ofVersion()]).toEqual(before)
})

const tables = [...storedEvents.tables, ...storedValues.tables]

it('so do events of versions with long names', async () => {
  const model = await aModel()
  const version = (at: number) => `${at % 95} ${'long '.repeat(200)}`
  await model.write(toEvents(someValues(400)).map((it, at) => ({ ...it, version: version(at) })))
  const before = await model.readFeatures()
  expect(await model.roll()).toBe(1)
  expect(await model.countCurrent()).toBe(400)
  expect(await model.readFeatures()).toEqual(before)
})

/** Merges in the middle of the work would put rollups off, and hide some from a look. */
async function withoutMerges(work: () => Promise<void>) {
  const { command, database } = stored.clickhouse
  const set = async (what: 'STOP' | 'START') => {
    for (const { name } of tables) await command(`SYSTEM ${what} MERGES ${database}.${name}`)
  }
  await set('STOP')
  try {
    await work()
  } finally {
    await set('START')
  }
}

it('four neighbours make one of the next level, and many of them one of all there is, which read as the events do', () =>
  withoutMerges(async () => {
    const model = await aModel()
    const countLevels = async () => {
      const all = await listRollups(stored.clickhouse, model.model)
      const levels = Object.groupBy(all, (it) => it.level)
      return Object.fromEntries(Object.entries(levels).map(([level, its]) => [level, its?.length]))
    }
    const rollUpTo = async (count: number) => {
      for (; written < count; written++) {
        const version = written % 3 === 0 || written > 14 ? '2' : '1'
        await model.write(toEvents(someValues(20, written), start + (written % 4) * hour, version))
      }
      const before = await model.readFeatures()
      await rollUp(stored.eventReader, model.model, { ...limits, eventsMax: 20 })
      expect(await model.countCurrent()).toBe(20 * count)
      expect(await model.readFeatures()).toEqual(before)
    }
    let written = 0
    await rollUpTo(15)
    expect(await countLevels()).toEqual({ 0: 15, 1: 3, [wholeLevel]: 1 })
    // The one of all there is was made anew, and is there once.
    await rollUpTo(23)
    expect(await countLevels()).toEqual({ 0: 23, 1: 5, 2: 1, [wholeLevel]: 1 })
  }))

it('numbers are rounded here as they are in ClickHouse', async () => {
  const numbers = [
    0,
    -0,
    1e-300,
    0.1,
    -0.3,
    1 / 3,
    1e6 + 1e-6,
    123_456_789.123,
    -7e200,
    1e308,
    2 ** 53 - 1,
    1_023,
    -1_025,
  ]
  for (const center of [0, 0.5, -1e6, 3e-7]) {
    const rows = await stored.clickhouse.rows<{ bits: string }>(
      `SELECT toString(reinterpretAsUInt64(${rounded(literal(center))})) AS bits
       FROM (SELECT arrayJoin([${numbers.map(literal)}]) AS number)`,
    )
    expect(rows.map((it) => it.bits)).toEqual(numbers.map((it) => toBits(round(it, center))))
  }
})

const toBits = (number: number) => String(new BigUint64Array(Float64Array.of(number).buffer)[0])

it('events that are stored after a rollup are read at once, also when they belong among those in it', async () => {
  const model = await aModel()
  const first = await model.write(toEvents(someValues(200)))
  await model.write(toEvents(someValues(200, 3)))
  await model.roll()
  const events = async () =>
    ((await read('features', { modelName: model.modelName })).features as { events: number }[])[0]?.events
  await model.write(toEvents(someValues(10, 5)))
  expect(await events()).toBe(410)
  expect(await model.countCurrent()).toBe(400)

  // A late one, with a number that the rollup reaches over.
  const { database } = stored.clickhouse
  const columns = 'model_id, kind, claim, place, version, timestamp'
  await stored.clickhouse.command(
    `INSERT INTO ${database}.events (${columns}, received, prediction_id)
     VALUES (${model.id}, 1, ${first.claim}, 500, '1', ${start}, ${start}, 'late')`,
  )
  await stored.clickhouse.command(
    `INSERT INTO ${database}.event_values (${columns}, part, name, type, number, text)
     VALUES (${model.id}, 1, ${first.claim}, 500, '1', ${start}, 1, 'x', 2, 77, '')`,
  )
  expect(await events()).toBe(411)
  const { windows } = (await read('distribution', { modelName: model.modelName, feature: 'x' })) as {
    windows: { max: number; events: number }[]
  }
  expect(windows[0]).toMatchObject({ max: 77, events: 411 })
  expect(await model.countCurrent()).toBe(0)
  const before = await model.readFeatures()
  expect(await model.roll()).toBeGreaterThan(0)
  expect(await model.countCurrent()).toBe(411)
  expect(await model.readFeatures()).toEqual(before)
})

it('what is delivered again after it was summed up counts once, before merges and after', async () => {
  const model = await aModel()
  const written = await model.write(toEvents(someValues(200)))
  await model.write(toEvents(someValues(100, 3), start + hour))
  const before = await model.readFeatures()
  await model.roll()
  await written.again()
  expect(await model.readFeatures()).toEqual(before)
  // Parts that are being merged at this moment may hide it from one look.
  await eventually(async () => {
    expect(await model.countCurrent()).toBe(300)
    expect(await model.countCurrent(storedEvents)).toBe(300)
  })
})

it('merges leave what is summed up as it is', async () => {
  const model = await aModel()
  const { clickhouse } = stored
  const { database } = clickhouse
  const written = await model.write(toEvents(someValues(200)))
  await model.write(toEvents(someValues(100, 3), start + hour))
  await model.roll()
  const before = await model.readFeatures()
  await written.again()
  await model.write(toEvents(someValues(50, 8), start + 2 * hour))
  const after = await model.readFeatures()
  expect(after).not.toEqual(before)
  for (const { name } of tables) await clickhouse.command(`OPTIMIZE TABLE ${database}.${name} FINAL`)
  expect(await model.readFeatures()).toEqual(after)
  expect(await model.countCurrent()).toBe(300)
})

it('an event that is voided after it was summed up is in no figure, and the next rollup knows', async () => {
  const model = await aModel()
  const written = await model.write(toEvents(someValues(200)))
  await model.roll()
  await stored.void(model.id, 'EVENTS', written.claim, [1, 2, 3])
  const events = async () =>
    ((await read('features', { modelName: model.modelName })).features as { events: number }[])[0]?.events
  expect(await events()).toBe(197)
  const before = await model.readFeatures()
  expect(await model.roll()).toBe(1)
  const [rollup] = await listRollups(stored.clickhouse, model.model)
  expect(rollup?.tombstones).toBe(3)
  expect(await model.readFeatures()).toEqual(before)
})

it('models that are asked for at once have each their own rollups and void events', async () => {
  const [one, other, empty] = await Promise.all([aModel(), aModel(), aModel()])
  const written = await one.write(toEvents(someValues(20)))
  await other.write(toEvents(someValues(30)))
  for (const it of [one, other]) await it.roll()
  await stored.void(one.id, 'EVENTS', written.claim, [1])
  const find = ({ model }: typeof one) => stored.eventReader.findCatalog(model)
  const found = await Promise.all([one, other, empty, one].map(find))
  const sum = { hasTombstones: false, rollups: [expect.objectContaining({ rows: { events: 30, event_values: 120 } })] }
  // Its rollup has an event that is void by now.
  const stale = { hasTombstones: true, rollups: [] }
  expect(found).toEqual([stale, sum, { hasTombstones: false, rollups: [] }, stale])
})

it.each(['before', 'after'])('a merge just %s values are summed up costs none and counts none twice', async (when) => {
  const { model, ...its } = await aModel([])
  const { database, command, rows } = stored.clickhouse
  const merge = async () => {
    for (const { name } of storedValues.tables) await command(`OPTIMIZE TABLE ${database}.${name} FINAL`)
  }
  const merged = {
    ...stored.clickhouse,
    async command(statement: string, settings?: Record<string, string | number>) {
      const isOfValues = statement.includes(`INSERT INTO ${database}.${rollupValuesTable}`)
      if (isOfValues && when === 'before') await merge()
      await command(statement, settings)
      if (isOfValues && when === 'after') await merge()
    },
  }
  for (let nth = 0; nth < 3; nth++) await its.write(toEvents(someValues(200, nth * 200)))
  expect(await rollUp(createEventReader(merged), model, limits)).toBe(1)
  const [rollup] = await listRollups(stored.clickhouse, model)
  expect(rollup?.rows).toEqual({ events: 600, event_values: 2_400 })
  const weights = `SELECT name, sum(weight) AS n FROM ${database}.${rollupValuesTable} WHERE rollup = ${rollup?.id} GROUP BY name ORDER BY name`
  expect(await rows(weights)).toEqual(['count', 'country', 'flag', 'x'].map((name) => ({ name, n: '600' })))
})

it('many different numbers are rounded, which is told and moves no quantile beyond 10 bits; many categories are read as they are', async () => {
  const model = await aModel(toEvents(Array.from({ length: 2_000 }, (_, at) => ({ x: 1e6 + Math.sin(at) ** 2 }))))
  const { clickhouse } = stored
  const { database } = clickhouse
  const count = 1_100_000
  const number = 'number AS n, 7 + intDiv(number, 1000) AS claim, number % 1000 AS place'
  await clickhouse.command(
    `INSERT INTO ${database}.events SELECT ${model.id}, 1, claim, place, '', ${start} + n, 0, toString(n) FROM (SELECT ${number} FROM numbers(${count}))`,
  )
  for (const [name, type, value, text] of [
    ['x', 2, '1e6 + cityHash64(n) / 18446744073709551616', "''"],
    ['id', 4, '0', `concat('id ', toString(cityHash64(n) % 50000))`],
  ]) {
    await clickhouse.command(
      `INSERT INTO ${database}.event_values SELECT ${model.id}, 1, '', 1, '${name}', ${start} + n, claim, place, ${type}, ${value}, ${text}
       FROM (SELECT ${number} FROM numbers(${count}))`,
    )
  }
  const query = { modelName: model.modelName, feature: 'x', bins: 4 }
  type Window = {
    counts: number[]
    mean: number
    std: number
    quantiles: Record<string, number>
    distinct: number
    isExact: boolean
  }
  const before = ((await read('distribution', query)).windows as Window[])[0] as Window
  const categories = await read('distribution', { modelName: model.modelName, feature: 'id', top: 3 })
  const measure = async () => {
    const { windows } = await read('drift', { modelName: model.modelName, feature: 'x' })
    return (windows as { features: Record<string, number>[] }[])[0]?.features[0] as Record<string, number>
  }
  const drift = await measure()
  expect(drift).toMatchObject({ method: 'rounded', values: { current: count } })
  await rollUp(stored.eventReader, model.model, { ...limits, eventsMax: 300_000 })
  expect(await model.countCurrent()).toBe(count)
  const after = ((await read('distribution', query)).windows as Window[])[0] as Window
  const mean = expect.closeTo(before.mean, 6)
  const counts = expect.anything()
  expect(after).toEqual({ ...before, counts, quantiles: counts, mean, std: expect.closeTo(before.std, 6) })
  // What was rounded together is in one bin.
  expect(after.counts.reduce((sum, it) => sum + it, 0)).toBe(count)
  for (const [bin, its] of after.counts.entries()) {
    expect(Math.abs(its - (before.counts[bin] as number)) / count).toBeLessThan(2e-3)
  }
  for (const [share, value] of Object.entries(before.quantiles)) {
    expect(Math.abs((after.quantiles[share] as number) - value)).toBeLessThan(6e-4)
  }
  expect(await read('distribution', { modelName: model.modelName, feature: 'id', top: 3 })).toEqual(categories)
  const rolled = await measure()
  expect(rolled).toMatchObject({ method: 'rounded', values: drift.values, missing: drift.missing })
  // A bound of a bin moves to the next of the numbers that values are rounded to, which differ with what they are around.
  const moves = { psi: 5e-3, jensenShannon: 2e-3, kolmogorovSmirnov: 1e-3, wasserstein: 1e-3 }
  for (const [name, most] of Object.entries(moves)) {
    expect(Math.abs((rolled[name] as number) - (drift[name] as number)), name).toBeLessThan(most)
  }
})

it('each number is counted in the cell that it is rounded to, whatever else the feature has', async () => {
  const id = await stored.model(service.workspaceName, uniqueName('model'))
  const { database, command, rows } = stored.clickhouse
  const count = 24_000
  const number = `number AS n, 7 + intDiv(number, 1000) AS claim, number % 1000 AS place, if(n % 3 = 0, '2', '') AS version`
  await command(
    `INSERT INTO ${database}.events SELECT ${id}, 1, claim, place, version, ${start} + n, 0, toString(n) FROM (SELECT ${number} FROM numbers(${count}))`,
  )
  const odd: [type: number, value: string][] = [
    [0, '0'],
    [3, '0'],
    [3, '1'],
    [1, '3'],
    [2, 'inf'],
    [2, '-inf'],
    [2, 'nan'],
    [2, '-0.'],
    [2, '1e-310'],
    [2, '1.7e308'],
    [2, '-1.7e308'],
  ]
  await command(
    `INSERT INTO ${database}.event_values SELECT ${id}, 1, version, 1, if(at = 0, 'x', 'y'), ${start} + n, claim, place,
       if(n % 40 < ${odd.length}, [${odd.map((it) => it[0])}][n % 40 + 1], 2),
       if(n % 40 < ${odd.length}, [${odd.map((it) => it[1])}]::Array(Float64)[n % 40 + 1], (at * 1e6) + cityHash64(n) / 1e18), ''
     FROM (SELECT ${number} FROM numbers(${count})) ARRAY JOIN [0, 1] AS at`,
  )
  expect(await rollUp(stored.eventReader, { modelId: id, kind: 'EVENTS' }, { ...limits, eventsMax: count })).toBe(1)

  const columns = "concat(name, ' ', version) AS series, type, toString(reinterpretAsUInt64(number)) AS bits"
  type Row = { series: string; type: number; bits: string }
  const cells = await rows<Row & { n: string; around: number; low: number; high: number; isRounded: number }>(
    `SELECT ${columns}, sum(weight) AS n, any(center) AS around, min(least) AS low, max(most) AS high, any(is_rounded) AS isRounded
     FROM ${database}.rollup_version_values WHERE model_id = ${id} GROUP BY series, type, bits`,
  )
  const centers = new Map(cells.map((it) => [it.series, it.around]))
  const expected = new Map<string, number>()
  const bounds = new Map<string, { low: number; high: number }>()
  const values = `SELECT ${columns} FROM ${database}.event_values WHERE model_id = ${id}`
  for (const { series, type, bits } of await rows<Row>(values)) {
    const value = new Float64Array(BigUint64Array.of(BigInt(bits)).buffer)[0] as number
    const isRounded = (type === 1 || type === 2) && Number.isFinite(value)
    const rounded = isRounded ? toBits(round(value, centers.get(series) as number)) : bits
    const key = `${series} ${type} ${rounded}`
    expected.set(key, (expected.get(key) ?? 0) + 1)
    if (!isRounded) continue
    const { low, high } = bounds.get(series) ?? { low: value, high: value }
    bounds.set(series, { low: Math.min(low, value), high: Math.max(high, value) })
  }
  expect(new Map(cells.map((it) => [`${it.series} ${it.type} ${it.bits}`, Number(it.n)]))).toEqual(expected)
  expect(cells.length).toBeLessThan(count)
  const ofSeries = Map.groupBy(
    cells.filter((it) => it.isRounded === 1),
    (it) => it.series,
  )
  const found = [...ofSeries].map(([series, its]): [string, object] => [
    series,
    { low: Math.min(...its.map((it) => it.low)), high: Math.max(...its.map((it) => it.high)) },
  ])
  expect(new Map(found)).toEqual(bounds)
})

it('a worker that dies in the middle of a rollup leaves every read as it was, and the next one goes on', async () => {
  const model = await aModel()
  for (let nth = 0; nth < 4; nth++) await model.write(toEvents(someValues(40, nth), start + nth * hour, `${nth % 2}`))
  const before = await model.readFeatures()
  const readCounts = async () => {
    const count = { modelName: model.modelName, feature: 'count' }
    return [await read('features', { modelName: model.modelName }), await read('distribution', count)]
  }
  const counts = await readCounts()
  const rollUpFor = (statements: number) => {
    let left = statements
    const command = (statement: string, settings?: Record<string, string | number>) =>
      left-- > 0 ? stored.clickhouse.command(statement, settings) : Promise.reject(new Error('the worker died'))
    return rollUp(createEventReader({ ...stored.clickhouse, command }), model.model, { ...limits, eventsMax: 40 })
  }
  let deaths = 0
  for (; ; deaths++) {
    try {
      await rollUpFor(deaths)
      break
    } catch (error) {
      expect(error).toEqual(new Error('the worker died'))
    }
    expect(await readCounts()).toEqual(counts)
  }
  // Values, those of versions, the features and the rollup itself: after none, one, two, three of them, and between.
  expect(deaths).toBeGreaterThan(3)
  expect(await model.countCurrent()).toBe(160)
  const levels = (await listRollups(stored.clickhouse, model.model)).map((it) => it.level)
  expect(levels.toSorted()).toEqual([0, 0, 0, 0, 1])
  expect(await model.readFeatures()).toEqual(before)
})

it('another process, and one that starts anew, read the same rollups', async () => {
  const model = await aModel()
  await model.write(toEvents(someValues(200)))
  const other = openClickHouse({ url: stores.clickhouseUrl })
  try {
    await rollUp(createEventReader(other), model.model, limits)
    expect(await model.countCurrent()).toBe(200)
    await sweepRollups(other)
    expect(await listRollups(stored.clickhouse, model.model)).toHaveLength(1)
  } finally {
    await other.close()
  }
})

it('a reference that was added to, or of which something is void, has other bins at once', async () => {
  const model = await aModel()
  await model.write(toEvents(someValues(100)))
  const readEdges = async () => {
    const { windows } = await read('drift', { modelName: model.modelName, feature: 'x' })
    const [feature] = (windows as { features: { bins: { to: number | null }[] }[] }[])[0]?.features ?? []
    return feature?.bins.map((it) => it.to)
  }
  const before = await readEdges()
  expect(await readEdges()).toEqual(before)
  const more = toEvents(Array.from({ length: 300 }, (_, at) => ({ x: 1_000 + at })))
  const { claim } = await stored.write(model.dataSet, 'TRAINING_EVENTS', more)
  expect(await readEdges()).toContainEqual(expect.closeTo(1_200, -2))
  const all = Array.from({ length: 300 }, (_, place) => place)
  await stored.void(model.dataSet, 'TRAINING_EVENTS', claim, all)
  expect(await readEdges()).toEqual(before)
})
