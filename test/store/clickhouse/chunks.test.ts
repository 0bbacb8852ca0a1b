import { text } from 'node:stream/consumers'
import { zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, inject, it } from 'vitest'
import { pushLines } from '../../../ingest/output/rows.ts'
import { type Batch, readBatch, readEnvelope } from '../../../ingest/points/batch.ts'
import { type ChunkBlock, pushChunks } from '../../../ingest/points/chunks.ts'
import { pushRows } from '../../../ingest/points/series-points.ts'
import { streamLogged } from '../../../store/clickhouse/archive/rows.ts'
import { createNativeBlock } from '../../../store/clickhouse/blocks/native-block.ts'
import { readNativeBlocks } from '../../../store/clickhouse/blocks/native-reader.ts'
import { readNativeBlock } from '../../../store/clickhouse/blocks/native-slice.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { rebuildDerived } from '../../../store/clickhouse/derived-tables.ts'
import { countParts, selectExported } from '../../../store/clickhouse/export/rows.ts'
import type { Position } from '../../../store/clickhouse/live/acceptance.ts'
import { readArrivedLines, readArrivedPoints, toPosition } from '../../../store/clickhouse/live/arrivals.ts'
import { readChangedMetrics, readNewest } from '../../../store/clickhouse/live/changes.ts'
import { migrateClickHouse } from '../../../store/clickhouse/migrations/migrate.ts'
import { countChartPoints, streamChart } from '../../../store/clickhouse/points/charts.ts'
import { chunkBlocks, chunksTable, summedLeast } from '../../../store/clickhouse/points/chunks.ts'
import { readHistory, readLatestPoints, readStepsOfHistory } from '../../../store/clickhouse/points/history.ts'
import { createAscendingReader, readAscending, readUnordered } from '../../../store/clickhouse/points/range-points.ts'
import {
  expectPoints,
  findSeries,
  type Range,
  type RangeX,
  type ReadRange,
} from '../../../store/clickhouse/points/range-rows.ts'
import { countRanges, findExtent, readRanges } from '../../../store/clickhouse/points/ranges.ts'
import { seriesOf, streamAllSeries, streamSummary } from '../../../store/clickhouse/points/reads.ts'
import { countPointsBySeries } from '../../../store/clickhouse/points/series-counts.ts'
import { readShortRanges } from '../../../store/clickhouse/points/short-ranges.ts'
import { readSeries, readShortSeries } from '../../../store/clickhouse/points/short-series.ts'
import { storeBlocks } from '../../../store/clickhouse/points/store-blocks.ts'
import { summarizeBlocks } from '../../../store/clickhouse/points/summaries/states.ts'
import {
  selectSummary,
  selectSummaryOfChunks,
  summaryTable,
} from '../../../store/clickhouse/points/summaries/summary.ts'
import { readSummaryValues } from '../../../store/clickhouse/points/summaries/values.ts'
import { outputLinesTable, pointsTable, present } from '../../../store/clickhouse/points/tables.ts'
import { streamThinnedSeries } from '../../../store/clickhouse/points/thinned-series.ts'
import { readMetricWindows } from '../../../store/clickhouse/points/windows.ts'
import { countRows } from '../../../store/clickhouse/row-counts.ts'
import { uniqueName } from '../../kit/service.ts'
import { readWhole } from './read-whole.ts'

/** The same requests are stored as rows in one experiment, and as chunks in another: every read of both answers the same. */
let clickhouse: ClickHouse
beforeAll(async () => {
  const url = new URL(inject('stores').clickhouseUrl)
  url.pathname = `/${uniqueName('chunks').replaceAll('-', '_')}`
  clickhouse = openClickHouse({ url: url.href })
  await migrateClickHouse(clickhouse)
})
afterAll(async () => {
  await clickhouse.command(`DROP DATABASE IF EXISTS ${clickhouse.database}`)
  await clickhouse.close()
})

let last = 0n
let rows: bigint
let chunks: bigint
let mixed: bigint
beforeEach(() => newExperiments())
function newExperiments() {
  rows = ++last
  chunks = ++last
  mixed = ++last
}

type Raw = { metrics?: unknown[]; series?: unknown[] }
type Request = { low: number; receivedMs: number; batch: Batch; isKeyed: boolean }

const read = (raw: Raw) => readBatch(readEnvelope({ experimentKey: 'x', ...raw }))
const aRequest = (raw: Raw, it: Partial<Request> = {}): Request => ({
  low: 1,
  receivedMs: 5_000,
  isKeyed: false,
  batch: read(raw),
  ...it,
})

const toOrigin = (experimentId: bigint, { low, receivedMs, isKeyed }: Request) => ({
  experimentId,
  identity: { high: isKeyed ? 2n ** 63n + 5n : 3n, low },
  receivedMs,
})

async function store(requests: Request[], summarizedHereMax?: number, through = clickhouse) {
  const rowBlock = createNativeBlock(pointsTable)
  const chunkBlock = createNativeBlock(chunkBlocks)
  for (const it of requests) {
    pushRows(rowBlock, toOrigin(rows, it), it.batch.series)
    pushChunks(chunkBlock, toOrigin(chunks, it), it.batch.series)
  }
  await storeBlocks(through, pointsTable, [zstdCompressSync(rowBlock.take())], summarizedHereMax)
  await storeBlocks(through, chunkBlocks, [zstdCompressSync(chunkBlock.take())], summarizedHereMax)
}

const names = ['loss', 'train_acc', 'b_c']
const start = { receivedMs: 0n, high: 0n, low: 0n, place: 0n }

/** As Postgres knows them: only `mixed` has its points in both forms. */
const toRun = (id: bigint, startTimeMs = 0n) => ({ id, startTimeMs, hasRows: id !== chunks, hasChunks: id !== rows })

/** What every read answers of an experiment, without its id. */
async function readAll(id: bigint, { isDistinct = true } = {}): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {}
  const { signal } = new AbortController()
  const run = toRun(id, 1_000n)
  const of = (name: string) => seriesOf(run, name)
  const shown = (it: unknown) =>
    JSON.stringify(it, (key, value) => (key === 'id' || key === 'experimentId' ? 0 : toText(value)))
  found.all = await text(await streamAllSeries(clickhouse, run))
  found.summary = await text(await streamSummary(clickhouse, id))
  found.values = shown([...((await readSummaryValues(clickhouse, [id], 'all')).get(id) ?? [])].toSorted())
  found.latest = shown([...((await readLatestPoints(clickhouse, [id])).get(id) ?? [])])
  found.count = await countRows(clickhouse, pointsTable, id)
  found.archive = await text(await streamLogged(clickhouse, 'points', [id], signal))
  for (const name of names) {
    found[`series ${name}`] = await readWhole(await readSeries(clickhouse, of(name)))
    found[`history ${name}`] = shown(await readHistory(clickhouse, of(name), { limit: 7, offset: 1 }))
    const steps = { fromStep: -(2n ** 62n), toStep: 2n ** 62n, stepsMax: 5 }
    found[`steps ${name}`] = shown(await readStepsOfHistory(clickhouse, of(name), steps))
    const window = { experimentIds: [id], metric: name, context: undefined, fromMs: 2_000, toMs: 1_000_000 }
    found[`window ${name}`] = shown([...(await readMetricWindows(clickhouse, window)).values()])
  }
  if (isDistinct) {
    for (const pointsMax of [3, 12]) {
      for (const name of names) {
        found[`thinned ${name} ${pointsMax}`] = await text(await streamThinnedSeries(clickhouse, of(name), pointsMax))
      }
      const chart = { experiments: [run], names, commonSteps: false, pointsMax }
      found[`chart ${pointsMax}`] = withoutId(await text(await streamChart(clickhouse, chart)))
    }
    const series = await findSeries(clickhouse, [run], names)
    found.found = shown(series.map(({ hasRows: _, hasChunks: __, ...it }) => it))
    const xs: RangeX[] = ['step', 'time', 'relative', 'epoch', { metric: 'loss', context: undefined }]
    for (const x of xs) {
      const some = x === 'time' ? [5_800, 12_000] : x === 'relative' ? [4_800, 11_000] : [2, 400]
      for (const bounds of [[undefined, undefined], some]) {
        const [from, to] = bounds.map((it) => (it === undefined || typeof x === 'object' ? it : BigInt(it)))
        const range: Range = { x, from, to, acceptedUntilMs: 6_000 }
        const extent = await findExtent(clickhouse, series, range)
        if (!extent) continue
        for (const points of [1, 6]) {
          const toLines = (ranges: ReadRange[]) =>
            ranges
              .map((it) => shown([it.series.metric, it.series.context, it.total, it.withoutX, it.columns]))
              .toSorted()
          const named = `range ${JSON.stringify(x)} ${bounds} ${points}`
          const ranges = await readRanges(clickhouse, series, range, { extent, points })
          const counted = await countRanges(clickhouse, series, range, { extent, points })
          expect(toComparable(ranges), `${named}, counted here and by ClickHouse`).toEqual(toComparable(counted))
          found[named] = toLines(ranges)
          found[`counted ${named}`] = toLines(counted)
        }
      }
    }
  }
  for (const commonSteps of [true, false]) {
    const chart = { experiments: [run], names, commonSteps, pointsMax: undefined }
    found[`chart ${commonSteps}`] = withoutId(await text(await streamChart(clickhouse, chart)))
  }
  const arrived: unknown[] = []
  const part = { untilMs: 6_000, rowsMax: 500 }
  arrived.push(...(await readArrivedPoints(clickhouse, [{ experimentId: id, after: start }], part)))
  found.arrived = shown(arrived.toSorted((a, b) => (shown(a) < shown(b) ? -1 : 1)))
  const between = { experimentIds: [id], after: start, before: { ...start, receivedMs: 6_000n } }
  found.changed = shown(await readChangedMetrics(clickhouse, between))
  found.newest = shown([...(await readNewest(clickhouse, [id], 0)).values()])
  const scope = { what: 'metrics' as const, runs: [{ id, key: 'k', name: 'n', project: 'p' }], untilMs: 6_000 }
  const { stream } = await clickhouse.streamExport(`${selectExported(clickhouse, scope)} FORMAT CSV`, {
    isWhole: false,
    signal,
  })
  found.exported = await text(stream)
  found.parts = shown((await countParts(clickhouse, scope, 10, signal)).map((it) => [it.rows, it.between]))
  return found
}

/** Ranges by series; their columns as the numbers that a page reads. */
const toComparable = (ranges: ReadRange[]) =>
  Object.fromEntries(
    ranges.map(({ series, isBucketed, total, withoutX, columns }) => [
      `${series.metric} ${series.context}`,
      [isBucketed, total, withoutX, Object.entries(columns).map(([name, values]) => [name, JSON.parse(values)])],
    ]),
  )

const toText = (value: unknown) => (typeof value === 'bigint' || typeof value === 'number' ? String(value) : value)
const withoutId = (lines: string) => lines.replaceAll(/^\d+\t/gm, '')

const extreme = fc.constantFrom(2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n, -1n)

type Order = 'up' | 'down' | 'mixed' | 'none' | 'some'

/** Points of a series; in a distinct one no two have the same step, time or value. */
const aSeries = (isDistinct: boolean) =>
  fc.record({
    name: fc.constantFrom('loss', 'acc', 'c'),
    context: fc.constantFrom('', 'train', 'b'),
    at: fc.integer({ min: 0, max: 50 }),
    // Chunks of a hundred and more are counted as a whole.
    size: fc.oneof(fc.integer({ min: 1, max: 14 }), fc.constantFrom(99, 100, 128)),
    stepOf: fc.constantFrom<Order>('up', 'up', 'down', 'mixed', 'none', 'some'),
    // Points without a time have that of their request, which is no other than that of the next.
    timeOf: isDistinct ? fc.constantFrom<Order>('up', 'down') : fc.constantFrom<Order>('up', 'down', 'none', 'some'),
    epochOf: fc.constantFrom<Order>('up', 'none', 'some'),
    special: fc.option(fc.tuple(fc.nat(13), fc.constantFrom('NaN', 'Infinity', '-Infinity', -0)), { freq: 3 }),
    step: fc.option(fc.tuple(fc.nat(13), extreme), { freq: 5 }),
    isRows: fc.boolean(),
    isDistinct: fc.constant(isDistinct),
  })

type Series = ReturnType<typeof aSeries> extends fc.Arbitrary<infer It> ? It : never

function toRaw(all: Series[], salt: number): Raw {
  const metrics: unknown[] = []
  const series: unknown[] = []
  for (const [index, it] of all.entries()) {
    const base = it.isDistinct ? (salt * 8 + index + 1) * 256 : 0
    // Two infinities, or a zero beside another, would be equal.
    const mayBeSpecial = !it.isDistinct || (salt === 0 && index === 0)
    // 17 has no divisor in common with any size: no two are the same.
    const order = (kind: string, at: number) =>
      kind === 'down' ? it.size - at : kind === 'mixed' ? (at * 17) % it.size : at
    const values = Array.from({ length: it.size }, (_, at) =>
      mayBeSpecial && it.special?.[0] === at ? it.special[1] : (base + ((at * 5) % 17) * 2 + at / 32) / 8,
    )
    const steps = values.map((_, at) => {
      if (it.stepOf === 'some' && at % 3 === 1) return null
      return mayBeSpecial && it.step?.[0] === at ? it.step[1] : it.at + base + order(it.stepOf, at)
    })
    const timestamps = values.map((_, at) =>
      it.timeOf === 'some' && at % 4 === 2 ? null : 3_000 + base * 10 + order(it.timeOf, at) * 10,
    )
    const epochs = values.map((_, at) =>
      it.epochOf === 'some' && at % 2 === 0 ? null : it.isDistinct ? base + at : Math.floor(at / 4),
    )
    const columns = {
      ...(it.stepOf !== 'none' && { steps }),
      ...(it.timeOf !== 'none' && { timestamps }),
      ...(it.epochOf !== 'none' && { epochs }),
    }
    const named = { metricName: it.name, ...(it.context !== '' && { context: it.context }) }
    if (!it.isRows) {
      series.push({ ...named, ...columns, values })
      continue
    }
    values.forEach((metricValue, at) => {
      const { steps: s, timestamps: t, epochs: e } = columns
      metrics.push({ ...named, metricValue, step: s?.[at], timestamp: t?.[at], epoch: e?.[at] })
    })
  }
  return { metrics, series }
}

const requests = (isDistinct: boolean) =>
  fc.array(
    fc.record({
      series: fc.array(aSeries(isDistinct), { minLength: 1, maxLength: 4 }),
      isRepeated: fc.boolean(),
      /** A repetition that a limit cuts, or that was cut before. */
      cut: fc.option(fc.constantFrom(1, 3, 10, 101)),
      isKeyed: fc.boolean(),
      late: fc.nat(2_000),
    }),
    { minLength: 1, maxLength: 3 },
  )

async function storeAll(
  all: { series: Series[]; isRepeated: boolean; cut: number | null; isKeyed: boolean; late: number }[],
  summarizedHereMax?: number,
) {
  for (const [at, it] of all.entries()) {
    const request = aRequest(toRaw(it.series, at), { low: at, receivedMs: 5_000 + it.late, isKeyed: it.isKeyed })
    if (it.cut !== null) {
      const cut = structuredClone(request.batch)
      for (const series of cut.series) series.kept = Math.min(series.kept, it.cut)
      await store([{ ...request, batch: cut }], summarizedHereMax)
    }
    await store(it.isRepeated ? [request, request] : [request], summarizedHereMax)
  }
}

/** Requests of 100 points each: too many to be put in order here. Every fifth is repeated. */
const manyRequests = Array.from({ length: 60 }, (_, at) => {
  const points = Array.from({ length: 50 }, (_, place) => ({
    metricValue: [at * 50 + place, 'NaN', -0, 1e300][(at + place) % 7] ?? place / 3,
    step: place % 5 === 0 ? null : at * 50 + place,
    timestamp: place % 3 === 0 ? null : 10_000 + at * 50 + place,
    epoch: place % 2 === 0 ? null : at,
  }))
  const named = ['loss', 'acc'].flatMap((metricName) => points.map((it) => ({ metricName, ...it })))
  return aRequest({ metrics: named }, { low: 1_000 - at, receivedMs: 5_000 + Math.floor(at / 2) })
})

it('arrived points are the same and in the same order, put in order here or by ClickHouse', async () => {
  await store(manyRequests.flatMap((it, at) => (at % 5 === 0 ? [it, it] : [it])))
  for (const id of [rows, chunks]) {
    const after = (position: Position) => ({ experimentId: id, after: position })
    const read = async (position: Position, rowsMax: number) =>
      await readArrivedPoints(clickhouse, [after(position)], { untilMs: 6_000, rowsMax })
    const all = await read(start, 10_000)
    expect(all).toHaveLength(6_000)
    const paged: typeof all = []
    for (let at = start; ; at = toPosition(paged.at(-1) as (typeof all)[0])) {
      const page = await read(at, 700)
      paged.push(...page)
      if (page.length < 700) break
    }
    expect(paged).toEqual(all)

    const middle = toPosition(all[2_990] as (typeof all)[0])
    const late = toPosition(all[5_500] as (typeof all)[0])
    for (const [first, second] of [
      [start, late],
      [middle, late],
    ] as const) {
      const watches = [after(first), after(second), { experimentId: 1_000_000n, after: first }]
      const found = await readArrivedPoints(clickhouse, watches, { untilMs: 6_000, rowsMax: 400 })
      const ofFirst = all.slice(first === start ? 0 : 2_991).slice(0, 400)
      expect(found).toEqual([...ofFirst, ...all.slice(5_501, 5_901).map((it) => ({ ...it, watch: 1 }))])
    }
  }
})

/** Lines of an experiment, a request of them after the other; every fifth request is delivered twice. */
async function storeLines(experimentId: bigint, requests: string[][]) {
  const block = createNativeBlock(outputLinesTable)
  requests.forEach((texts, at) => {
    const outputLines = texts.map((output, place) => ({
      output,
      stderr: place % 2 === 0,
      offset: place % 3 > 0 ? at * 100 + place : undefined,
      localTimestamp: place % 5 > 0 ? 10_000 + place : undefined,
    }))
    const request = aRequest({ metrics: [] }, { low: 1_000 - at, receivedMs: 5_000 + Math.floor(at / 2) })
    const origin = toOrigin(experimentId, request)
    for (let time = 0; time < (at % 5 === 0 ? 2 : 1); time++)
      pushLines(block, origin, { outputLines, experimentKey: 'x', context: 'train', runContext: undefined })
  })
  await clickhouse.insertBlocks(outputLinesTable, [zstdCompressSync(block.take())])
}

const readLinesAfter = async (watches: Parameters<typeof readArrivedLines>[1], part: object = {}) =>
  await readArrivedLines(clickhouse, watches, { untilMs: 6_000, rowsMax: 10_000, bytesMax: 1e9, ...part })

it('arrived lines are the same and in the same order, put in order here or by ClickHouse', async () => {
  const places = Array.from({ length: 100 }, (_, place) => place)
  await storeLines(
    rows,
    Array.from({ length: 15 }, (_, at) => places.map((place) => `${at} ${place} "ü"\n`)),
  )
  const read = async (after: Position, rowsMax: number) =>
    (await readLinesAfter([{ experimentId: rows, after }], { rowsMax })).lines
  const all = await read(start, 10_000)
  expect(all).toHaveLength(1_500)
  const paged: typeof all = []
  for (let at = start; ; at = toPosition(paged.at(-1) as (typeof all)[0])) {
    const page = await read(at, 350)
    paged.push(...page)
    if (page.length < 350) break
  }
  expect(paged).toEqual(all)
})

it('arrived lines are read in parts of so many bytes, each of one line at least', async () => {
  // Of all requests together: few short lines, many of them, and long ones, the first of them longer than a part.
  const sizes = [[30_000], Array(5).fill(9_000), Array(1_050).fill(10), [0, 0, 20_000, 0, 7_000]]
  const texts = sizes.map((its, at) => its.map((size: number, place: number) => `${at} ${place}`.padEnd(size, 'ü')))
  await storeLines(rows, texts)
  await storeLines(
    chunks,
    texts.map((its) => its.slice(0, 2)),
  )
  const bytesOf = (found: { line: string }[]) => found.reduce((sum, it) => sum + Buffer.byteLength(it.line), 0)
  async function readAll(experimentIds: bigint[], bytesMax: number): Promise<string[][]> {
    const watches = experimentIds.map((experimentId) => ({ experimentId, after: start }))
    const found: string[][] = watches.map(() => [])
    let lastRead: number | undefined
    for (;;) {
      const { lines, cut } = await readLinesAfter(watches, { bytesMax, lastRead })
      lastRead = cut.size > 0 ? lines.length : undefined
      watches.forEach((watch, at) => {
        const its = lines.filter((it) => it.watch === at)
        if (its.length > 1) expect(bytesOf(its)).toBeLessThanOrEqual(bytesMax / watches.length)
        if (cut.has(at)) expect(its.length).toBeGreaterThan(0)
        found[at]?.push(...its.map((it) => it.line))
        if (its.length > 0) watch.after = toPosition(its.at(-1) as (typeof its)[0])
      })
      if (cut.size === 0) return found
    }
  }
  for (const bytesMax of [20_000, 1e9]) {
    expect(await readAll([rows, chunks], bytesMax)).toEqual([
      inOrder(texts),
      inOrder(texts.map((its) => its.slice(0, 2))),
    ])
  }
  expect(await readAll([chunks], 1)).toEqual([inOrder(texts.map((its) => its.slice(0, 2)))])
})

/** Requests that were accepted in the same millisecond are in the order of their ids: the later ones have lower ones here. */
const inOrder = ([first = [], second = [], third = [], fourth = []]: string[][]) =>
  [second, first, fourth, third].flat()

it('changed metrics are the same, counted here or by ClickHouse', async () => {
  await store(manyRequests.flatMap((it, at) => (at % 5 === 0 ? [it, it] : [it])))
  for (const id of [rows, chunks]) {
    const [point] = await readArrivedPoints(clickhouse, [{ experimentId: id, after: start }], {
      untilMs: 6_000,
      rowsMax: 1,
    })
    const first = toPosition(point as NonNullable<typeof point>)
    const middle = { ...start, receivedMs: 5_015n }
    const end = { ...start, receivedMs: 6_000n }
    const read = (after: Position, before: Position) =>
      readChangedMetrics(clickhouse, { experimentIds: [id], after, before })
    const [all, early, late] = await Promise.all([read(first, end), read(first, middle), read(middle, end)])
    expect(all.map((it) => [it.metric, Number(it.points)])).toEqual([
      ['acc', 3_000 - (point?.metric === 'acc' ? 1 : 0)],
      ['loss', 3_000 - (point?.metric === 'loss' ? 1 : 0)],
    ])
    const counted = late.map((it, at) => ({ ...it, points: String(Number(it.points) + Number(early[at]?.points)) }))
    expect(counted).toEqual(all)
  }
})

it.each([true, false])('every read answers the same of chunks as of rows (distinct points: %s)', async (isDistinct) => {
  await fc.assert(
    fc.asyncProperty(requests(isDistinct), async (all) => {
      newExperiments()
      await storeAll(all)
      const [expected, found] = await Promise.all([readAll(rows, { isDistinct }), readAll(chunks, { isDistinct })])
      expect(found).toEqual(expected)
    }),
    { numRuns: Number(process.env.CHUNK_RUNS ?? 1), endOnFailure: true },
  )
})

/** A block of an ingest that leaves to ClickHouse what can be computed. */
function takeEarlierBlock(request: Request): Buffer {
  const block = createNativeBlock(chunksTable)
  const unknown = Object.fromEntries(chunksTable.derived.map((it) => [it.name, { push() {} }]))
  const columns = { ...block.columns, ...unknown } as ChunkBlock['columns']
  pushChunks({ ...block, endRow: block.endRow, columns }, toOrigin(chunks, request), request.batch.series)
  return block.take()
}

/** The columns of chunks that are not what ClickHouse computes of them. */
async function findWrong(): Promise<unknown> {
  const checks = chunksTable.derived.map(
    ({ name, from }) =>
      `if(toString(${name}) = toString(${from}), '', concat('${name} ', toString(${name}), ' ', toString(${from})))`,
  )
  return await clickhouse.rows(
    `SELECT arrayFilter(it -> it != '', [${checks.join(', ')}]) AS wrong, steps, timestamps, presents, value_bits
     FROM ${clickhouse.database}.${chunksTable.name} WHERE experiment_id = ${chunks} AND notEmpty(wrong)`,
  )
}

it('a block says of a chunk what ClickHouse would compute', async () => {
  const special = ['NaN', 'Infinity', '-Infinity', -0, 0, 0, -1.5, 1.5, 2n ** 60n, 1e-320]
  const values = [
    special,
    special.toReversed(),
    special.slice(3),
    special.slice(4),
    [-0, 0],
    [0, -0],
    ['NaN', 'NaN'],
    [-1, -2, -1],
  ]
  // With sums, which are those of what a limit left of them, too.
  const long = [...values, [-0], [-0, -0], [0.1, 0.2]].map((it) => [...it, ...Array(summedLeast).fill(0.3)])
  const left = [...values.map((it) => it.length), 1, 2, summedLeast]
  const request = aRequest({ series: [...values, ...long].map((it, at) => ({ metricName: `m${at}`, values: it })) })
  for (const [at, it] of left.entries()) {
    const series = request.batch.series[values.length + at]
    if (series) series.kept = it
  }
  // As an Arrow stream has them, with integers of all 64 bits and a NaN that has more bits than the usual one.
  const integers = [5n, 2n ** 63n - 1n, -(2n ** 63n), 5n, 0n, -1n]
  const typed = request.batch.series.map((it) => {
    const lists = {
      values: Float64Array.from(it.values),
      steps: BigInt64Array.from(it.values, (_, at) => integers[at % 6] ?? 0n),
    }
    new BigUint64Array(lists.values.buffer).forEach((bits, at, all) => {
      if (bits === 0x7ff8n << 48n) all[at] = bits + 5n
    })
    const timestamps = BigInt64Array.from(it.values, (_, at) => BigInt(at))
    return { ...it, ...lists, timestamps, metric: `typed ${it.metric}`, present: present.step | present.timestamp }
  })
  request.batch.series.push(...typed)
  await store([request])
  expect(await findWrong()).toEqual([])
  await fc.assert(
    fc.asyncProperty(requests(false), async (all) => {
      await storeAll(all)
      expect(await findWrong()).toEqual([])
    }),
    { numRuns: Number(process.env.CHUNK_RUNS ?? 5), endOnFailure: true },
  )
})

/** The summary of an experiment, of the rows of its table, or computed by ClickHouse from all points. */
async function readSummary(id: bigint, summary: string): Promise<{ rows: string; fields: string }[]> {
  return await clickhouse.rows(
    `SELECT toString(sum(rows)) AS rows, toString(tuple(metric, context, min(minimum), max(maximum), max(current),
       argMaxMerge(current_bits), min(step_low), max(step_high), min(time_low), max(time_high), max(has_nan),
       groupBitAnd(present_all), groupBitOr(present_any))) AS fields
     FROM (${summary}) WHERE experiment_id = ${id} GROUP BY metric, context ORDER BY metric, context`,
  )
}

/** The summaries are those that ClickHouse would make of all points that are stored. */
async function expectSummaries() {
  const { database } = clickhouse
  const computed = `${selectSummary(`${database}.points`)} UNION ALL ${selectSummaryOfChunks(`${database}.point_chunks`)}`
  for (const id of [rows, chunks]) {
    const [expected, found] = await Promise.all([
      readSummary(id, computed),
      readSummary(id, `SELECT * FROM ${database}.${summaryTable}`),
    ])
    expect(found.length).toBeGreaterThan(0)
    expect(found.map((it) => it.fields)).toEqual(expected.map((it) => it.fields))
    // An upper bound.
    for (const [at, it] of found.entries()) {
      expect(Number(it.rows)).toBeGreaterThanOrEqual(Number(expected[at]?.rows))
    }
  }
}

it.each([
  ['workers make', undefined],
  ['ClickHouse makes of large blocks', 0],
])('the summaries that %s are those of all stored points', async (_by, summarizedHereMax) => {
  const special = ['NaN', 'Infinity', '-Infinity', -0, 0, -1.5, 1e-320, String(2n ** 60n)]
  const steps = [2n ** 63n - 1n, -(2n ** 63n), 0, -1, 1, 2n ** 32n, -(2n ** 32n), 7]
  const ofSpecial = [
    ...special.map((it, at) => ({ metricName: `m${at}`, values: [it], steps: [steps[at]] })),
    { metricName: 'all', values: special, steps, timestamps: steps },
    { metricName: 'one value', values: steps.map(() => -0), steps, timestamps: steps.toReversed() },
    {
      metricName: 'one time',
      context: 'x',
      values: special,
      steps: steps.map(() => 5),
      timestamps: steps.map(() => 5),
    },
  ]
  await store([aRequest({ series: ofSpecial }, { low: 2 ** 50, isKeyed: true })], summarizedHereMax)
  await expectSummaries()
  await fc.assert(
    fc.asyncProperty(requests(false), async (all) => {
      newExperiments()
      await storeAll(all, summarizedHereMax)
      for (const [at, it] of all.entries()) {
        const request = aRequest(toRaw(it.series, at), { low: at, receivedMs: 5_000 + it.late, isKeyed: it.isKeyed })
        const block = createNativeBlock(chunkBlocks)
        pushChunks(block, toOrigin(chunks, request), request.batch.series)
        const blocks = [takeEarlierBlock(request), block.take()].map((bytes) => zstdCompressSync(bytes))
        await storeBlocks(clickhouse, chunkBlocks, blocks, summarizedHereMax)
      }
      await expectSummaries()
    }),
    { numRuns: Number(process.env.CHUNK_RUNS ?? 5), endOnFailure: true },
  )
})

it.each([
  ['small batches are summarized by the worker', 1_000, 0],
  ['large ones by ClickHouse', 40_000, 2],
])('%s', async (_name, size, expected) => {
  const values = Array.from({ length: size }, (_, at) => (at * 7_919) % size)
  let byClickHouse = 0
  const counting: ClickHouse = {
    ...clickhouse,
    insertSelected(...given) {
      byClickHouse++
      return clickhouse.insertSelected(...given)
    },
  }
  await store([aRequest({ series: [{ metricName: 'loss', values, steps: values }] })], undefined, counting)
  expect(byClickHouse).toBe(expected)
  await expectSummaries()
})

it('a point that came several times counts once against the limit of a full chart', async () => {
  const request = aRequest({ series })
  for (let time = 0; time < 3; time++) await store([request])
  for (const id of [rows, chunks]) {
    const experiments = [toRun(id)]
    const chart = { experiments, names: ['loss', 'train_acc', 'c'], commonSteps: true, pointsMax: undefined }
    const counted = [30, 29, 10, 9].map((limit) => countChartPoints(clickhouse, chart, limit))
    expect(await Promise.all(counted)).toEqual([30, 10, 10, 10])
    // More than repetitions explain is not counted.
    expect(await countChartPoints(clickhouse, chart, 7)).toBe(30)
  }
})

it('blocks of a later version, which this one cannot read, are summarized by ClickHouse', async () => {
  const request = aRequest({ series })
  const rowBlock = createNativeBlock(pointsTable)
  const chunkBlock = createNativeBlock(chunkBlocks)
  pushRows(rowBlock, toOrigin(rows, request), request.batch.series)
  pushChunks(chunkBlock, toOrigin(chunks, request), request.batch.series)
  const later = (block: Buffer, rowCount: number) => {
    const more = Buffer.from(block)
    more[0] = (more[0] as number) + 1
    return zstdCompressSync(Buffer.concat([more, Buffer.from('\x05later\x04Date'), Buffer.alloc(2 * rowCount)]))
  }
  const blocks = { points: later(rowBlock.take(), 10), chunks: later(chunkBlock.take(), series.length) }
  for (const it of Object.values(blocks)) expect(() => summarizeBlocks([it])).toThrow('Date is not supported')
  await storeBlocks(clickhouse, pointsTable, [blocks.points])
  await storeBlocks(clickhouse, chunkBlocks, [blocks.chunks])
  await expectSummaries()
})

it('ClickHouse computes it for blocks of an earlier version, beside those of this one', async () => {
  const [earlier, later] = [1, 2].map((low) =>
    aRequest({ series: [{ metricName: 'loss', steps: [3, 1, 2], values: [2, 0.5, low] }] }, { low }),
  )
  const block = createNativeBlock(chunkBlocks)
  pushChunks(block, toOrigin(chunks, later as Request), (later as Request).batch.series)
  const blocks = [takeEarlierBlock(earlier as Request), block.take()].map((it) => zstdCompressSync(it))
  await storeBlocks(clickhouse, chunkBlocks, blocks)
  expect(await countRows(clickhouse, pointsTable, chunks)).toBe(6)
  expect(await findWrong()).toEqual([])
})

it('a worker of an earlier version leaves it to ClickHouse', async () => {
  const request = aRequest({ series })
  const block = createNativeBlock(chunkBlocks)
  pushChunks(block, toOrigin(chunks, request), request.batch.series)
  await storeBlocks(clickhouse, chunksTable, [zstdCompressSync(block.take())])
  expect(await countRows(clickhouse, pointsTable, chunks)).toBe(10)
  expect(await findWrong()).toEqual([])
})

it('buckets count a chunk once that was cut first and came whole then', async () => {
  const steps = Array.from({ length: 120 }, (_, step) => step)
  const whole = aRequest({ series: [{ metricName: 'loss', steps, values: steps }] })
  const cut = structuredClone(whole.batch)
  for (const it of cut.series) it.kept = 50
  await clickhouse.command(`SYSTEM STOP MERGES ${clickhouse.database}.${chunksTable.name}`)
  try {
    await store([{ ...whole, batch: cut }])
    await store([whole])
    const found = await findSeries(clickhouse, [toRun(chunks)], ['loss'])
    const range: Range = { x: 'step', from: undefined, to: undefined, acceptedUntilMs: undefined }
    const extent = (await findExtent(clickhouse, found, range)) ?? expect.fail('there is no extent')
    const [read] = await readRanges(clickhouse, found, range, { extent, points: 1 })
    expect([read?.total, read?.columns.count, read?.columns.max]).toEqual([120, '[120]', '[119]'])
  } finally {
    await clickhouse.command(`SYSTEM START MERGES ${clickhouse.database}.${chunksTable.name}`)
  }
})

it('points at the same step are in the order of their times', async () => {
  const request = aRequest({
    series: [{ metricName: 'loss', steps: [1, 1, 2], timestamps: [20, 10, 30], values: [1, 2, 3] }],
  })
  await store([request])
  const range: Range = { x: 'step', from: undefined, to: undefined, acceptedUntilMs: undefined }
  const extent = { from: 1n, to: 2n }
  for (const run of [rows, chunks]) {
    const found = await findSeries(clickhouse, [toRun(run)], ['loss'])
    for (const read of [readRanges, countRanges]) {
      const [points] = await read(clickhouse, found, range, { extent, points: 3 })
      expect(points?.columns).toEqual({ x: '[1,1,2]', last: '[2,1,3]' })
    }
    const [buckets] = await readRanges(clickhouse, found, range, { extent, points: 2 })
    expect(buckets?.columns).toMatchObject({ first: '[2,3]', last: '[1,3]', count: '[2,1]' })
  }
})

it('points without a time are where their newest delivery is, and nowhere else', async () => {
  const request = aRequest({ series: [{ metricName: 'loss', steps: [1, 2], values: [1, 2] }] })
  const tables = [pointsTable, chunksTable].map((it) => `${clickhouse.database}.${it.name}`)
  for (const it of tables) await clickhouse.command(`SYSTEM STOP MERGES ${it}`)
  try {
    for (const receivedMs of [5_000, 7_000]) await store([{ ...request, receivedMs }])
    for (const run of [rows, chunks]) {
      const found = await findSeries(clickhouse, [toRun(run)], ['loss'])
      for (const read of [readRanges, countRanges]) {
        const count = async (from: bigint, to: bigint) => {
          const range: Range = { x: 'time', from, to, acceptedUntilMs: undefined }
          const ranges = await read(clickhouse, found, range, { extent: { from, to }, points: 1 })
          return ranges.map((it) => it.total)
        }
        expect([await count(4_000n, 6_000n), await count(6_001n, 8_000n)]).toEqual([[], [2]])
      }
    }
  } finally {
    for (const it of tables) await clickhouse.command(`SYSTEM START MERGES ${it}`)
  }
})

it('requests in any order are one series in order, where they do not overlap', async () => {
  const request = (at: number, steps: number[]) =>
    aRequest({ series: [{ metricName: 'loss', steps, values: steps.map((step) => step / 8) }] }, { low: at })
  const ofHundred = (from: number, by = 1) => Array.from({ length: 100 }, (_, at) => from + at * by)
  const range: Range = { x: 'step', from: 150n, to: undefined, acceptedUntilMs: undefined }
  const readAll = async () => {
    const all: [number[] | undefined, unknown, unknown][] = []
    for (const run of [rows, chunks]) {
      const found = await findSeries(clickhouse, [toRun(run)], ['loss'])
      const asked = { extent: { from: 150n, to: 500n }, points: 7 }
      const [ascending] = (await readAscending(clickhouse, found, range, 1_000)) ?? []
      const [read] = await readRanges(clickhouse, found, range, asked)
      const [counted] = await countRanges(clickhouse, found, range, asked)
      all.push([ascending && Array.from(ascending.xs).slice(0, ascending.count), read, counted])
    }
    return all
  }
  await store([request(3, ofHundred(400)), request(1, ofHundred(0))])
  await store([request(2, ofHundred(200)), request(0, ofHundred(100))])
  for (const [xs, read, counted] of await readAll()) {
    expect(xs).toEqual([...ofHundred(100).slice(50), ...ofHundred(200), ...ofHundred(400)])
    expect(counted).toMatchObject(read as object)
  }
  // Between the steps of the others: a chunk of them is no part that can be put before or after another.
  await store([request(4, ofHundred(300, 2))])
  const [ofRows, ofChunks] = await readAll()
  expect([ofRows?.[0]?.length, ofChunks?.[0]]).toEqual([undefined, undefined])
  for (const it of [ofRows, ofChunks]) expect(it?.[2]).toMatchObject(it?.[1] as object)
})

it('parts that do not overlap, which ClickHouse answers in any order, are put in order as wholes', async () => {
  const toStored = (it: (typeof pointsTable.columns)[number]) =>
    it.name === 'value' ? { ...it, name: 'value_bits' as const } : it
  const storedRows = { ...pointsTable, columns: pointsTable.columns.map(toStored) }
  const ofHundred = (from: number) => Array.from({ length: 100 }, (_, at) => from + at)
  const request = (from: number) => {
    const steps = ofHundred(from)
    return aRequest(
      { series: ['loss', 'val'].map((metricName) => ({ metricName, steps, values: steps })) },
      { low: from },
    )
  }
  await store([request(0)])
  const range: Range = { x: 'step', from: 50n, to: 450n, acceptedUntilMs: undefined }
  for (const run of [rows, chunks]) {
    const found = await findSeries(clickhouse, [toRun(run)], ['loss', 'val'])
    const reader = createAscendingReader(found, range, 1_000)
    for (const from of [100, 400, 200, 0]) {
      const part = request(from)
      const [ofRows, ofChunks] = [createNativeBlock(storedRows), createNativeBlock(chunkBlocks)]
      const columns = { ...ofRows.columns, value: ofRows.columns.value_bits }
      pushRows({ ...ofRows, endRow: ofRows.endRow, columns } as never, toOrigin(run, part), part.batch.series)
      pushChunks(ofChunks, toOrigin(run, part), part.batch.series)
      const answered = run === rows ? ofRows : ofChunks
      for (const it of readNativeBlocks(answered.take())) expect(reader.add(it)).toBe(true)
    }
    const read = reader.take() ?? []
    const expected = [...ofHundred(0).slice(50), ...ofHundred(100), ...ofHundred(200), ...ofHundred(400).slice(0, 51)]
    expect(read.map((it) => Array.from(it.xs).slice(0, it.count))).toEqual([expected, expected])
  }
})

it('more points than can be read here are counted by ClickHouse: all of them', async () => {
  const values = Array.from({ length: 90_000 }, (_, at) => at)
  // Nearly all are in a hundredth of the range, where few are expected.
  const steps = values.map((_, at) => (at === 0 ? 0 : 3_000_000 + at))
  await store([aRequest({ series: [{ metricName: 'loss', values, steps }] })])
  const range: Range = { x: 'step', from: 3_000_000n, to: 3_090_000n, acceptedUntilMs: undefined }
  for (const run of [rows, chunks]) {
    const found = await findSeries(clickhouse, [toRun(run)], ['loss'])
    expect(expectPoints(found, range)[0]).toBeLessThan(3_000)
    for (const readPoints of [readAscending, readUnordered]) {
      expect(await readPoints(clickhouse, found, range, 80_000)).toBeUndefined()
    }
    const [read] = await readRanges(clickhouse, found, range, {
      extent: { from: 3_000_000n, to: 3_090_000n },
      points: 2,
    })
    expect([read?.total, read?.columns.max]).toEqual([89_999, '[45000,89999]'])
  }
})

it('a few points of a chunk that is too large to be read here are counted by ClickHouse', async () => {
  const values = Array.from({ length: 1_100_000 }, (_, at) => at)
  await store([aRequest({ series: [{ metricName: 'loss', values, steps: values }] })])
  const range: Range = { x: 'step', from: 1_000n, to: 1_009n, acceptedUntilMs: undefined }
  const found = await findSeries(clickhouse, [toRun(chunks)], ['loss'])
  const asked = { extent: { from: 1_000n, to: 1_009n }, points: 2, expected: 10 }
  expect(await readShortRanges(clickhouse, found, range, asked)).toBeUndefined()
  const [read] = await readRanges(clickhouse, found, range, asked)
  expect([read?.total, read?.columns.max]).toEqual([10, '[1004,1009]'])
})

const series = [
  { metricName: 'loss', steps: [3, 2, null], timestamps: [10, 20, 30], values: [1, 'NaN', -0] },
  { metricName: 'acc', context: 'train', epochs: [0, 0, 1, 1], values: [1, 2, 3, 4] },
  { metricName: 'c', context: 'b', steps: [1, 2, 3], values: [0.5, 0.25, 7] },
]

it.each([2_000, 2_001, 300_000])(
  'a short series is one of up to 2,000 points, in whatever chunks: %s',
  async (size) => {
    const values = Array.from({ length: size }, (_, at) => at)
    await store([aRequest({ series: [{ metricName: 'loss', values, steps: values }] })])
    const series = seriesOf(toRun(chunks), 'loss')
    expect((await readShortSeries(clickhouse, series)) !== undefined).toBe(size <= 2_000)
    expect(JSON.parse(await readWhole(await readSeries(clickhouse, series)))).toHaveLength(size)
  },
)

it('an experiment with rows and chunks is read from both', async () => {
  const names = [{ metricName: 'loss' }, { metricName: 'acc', context: 'train' }, { metricName: 'c', context: 'b' }]
  const requests = [0, 1, 2, 3].map((low) => {
    const steps = Array.from({ length: 150 }, (_, at) => low * 150 + at)
    const of = {
      steps,
      epochs: steps,
      timestamps: steps.map((it) => 2_000 + it * 30),
      values: steps.map((it) => it / 8),
    }
    return aRequest({ series: names.map((it) => ({ ...it, ...of })) }, { low })
  })
  await store(requests)
  const [rowBlock, chunkBlock] = [createNativeBlock(pointsTable), createNativeBlock(chunkBlocks)]
  requests.forEach((it, at) => {
    if (at % 2 === 0) pushRows(rowBlock, toOrigin(mixed, it), it.batch.series)
    else pushChunks(chunkBlock, toOrigin(mixed, it), it.batch.series)
  })
  await storeBlocks(clickhouse, pointsTable, [zstdCompressSync(rowBlock.take())])
  await storeBlocks(clickhouse, chunkBlocks, [zstdCompressSync(chunkBlock.take())])
  expect(await readAll(mixed)).toEqual(await readAll(rows))
})

it('limits count the points of each series', async () => {
  await store([aRequest({ series })])
  const expected = new Map([
    ['loss', 3],
    ['train_acc', 4],
    ['b_c', 3],
  ])
  for (const id of [rows, chunks]) expect(await countPointsBySeries(clickhouse, id)).toEqual(expected)
})

it('a block of chunks can be split into its rows, and what is derived from them made anew', async () => {
  const request = aRequest({ series })
  await store([request])
  const block = createNativeBlock(chunkBlocks)
  pushChunks(block, toOrigin(chunks, request), request.batch.series)
  const native = readNativeBlock(block.take())
  expect(native.rows).toBe(3)
  for (let at = 0; at < 3; at++) {
    await storeBlocks(clickhouse, chunkBlocks, [zstdCompressSync(native.slice(at, at + 1))])
  }
  expect(await countRows(clickhouse, pointsTable, chunks)).toBe(10)
  const expected = await text(await streamSummary(clickhouse, chunks))
  expect(expected).toBe(await text(await streamSummary(clickhouse, rows)))

  await rebuildDerived(clickhouse, () => undefined)
  expect(await text(await streamSummary(clickhouse, chunks))).toBe(expected)
})
