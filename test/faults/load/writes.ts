import type { Random } from '../../../cli/demo/random.ts'
import { toJsonInteger } from '../../../http/body/exact-json.ts'
import { lineText, type PointRow, pointText, valueText } from '../verify/rows.ts'

/** One request, and the rows it must store. */
export type Write = { path: string; fields: Record<string, unknown>; points: string[]; lines: string[] }

/** Draws integers and choices from a generator. */
function createDice(random: Random) {
  const below = (limit: number) => Math.floor(random() * limit)
  return {
    random,
    below,
    from: (least: number, most: number) => least + below(most - least + 1),
    one: <T>(list: readonly T[]) => list[below(list.length)] as T,
    chance: (share: number) => random() < share,
  }
}

type Dice = ReturnType<typeof createDice>

const metrics = ['loss', 'accuracy', 'grad/norm', 'lernrate ü', '学習率', 'quote"backslash\\']
const contexts = ['', 'train', 'validate']
const oddValues = [
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  -0,
  0,
  5e-324,
  1.7976931348623157e308,
  0.1,
]
const oddSteps = [null, -1, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n]
const oddTexts = ['', ' ', '\\n', '"', '\t\u001b[31m', '日本語', '👩‍🚀', '%7C 12/100 [00:01<00:09]']
const startMs = 1_760_000_000_000

/**
 * The writes of one client: a random mix of single points, rows, columns, output and resource usage. Some points equal
 * earlier ones; all of them must be stored.
 */
export function createWrites(client: number, random: Random): { next(): Write } {
  const dice = createDice(random)
  let step = 0
  let offset = client * 1_000_000
  let lastPoint: PointRow | undefined

  function drawPoint(fixed: Partial<PointRow> = {}): PointRow {
    if (lastPoint && Object.keys(fixed).length === 0 && dice.chance(0.05)) return lastPoint
    lastPoint = {
      metric: dice.one(metrics),
      context: dice.one(contexts),
      step: dice.chance(0.05) ? dice.one(oddSteps) : step++,
      epoch: dice.chance(0.3) ? dice.below(100) : null,
      timestamp: startMs + dice.below(1_000_000_000),
      value: dice.chance(0.1) ? dice.one(oddValues) : drawValue(dice),
      ...fixed,
    }
    return lastPoint
  }

  function single(): Write {
    const point = drawPoint()
    return toWrite('metric', toFields(point), [point])
  }

  function rows(): Write {
    const points = Array.from({ length: dice.from(1, 60) }, () => drawPoint())
    return toWrite('metrics/batch', { metrics: points.map(toFields) }, points)
  }

  function columns(): Write {
    const series = Array.from({ length: dice.from(1, 3) }, () => {
      const fixed = { metric: dice.one(metrics), context: dice.one(contexts), epoch: null }
      return Array.from({ length: dice.from(1, 60) }, () => drawPoint({ ...fixed, step: step++ }))
    })
    return toWrite('metrics/batch', { series: series.map(toColumns) }, series.flat())
  }

  function output(): Write {
    const context = dice.one(contexts)
    const lines = Array.from({ length: dice.from(1, 20) }, () => ({
      context,
      offset: offset++,
      timestamp: startMs + dice.below(1_000_000_000),
      stderr: dice.chance(0.3),
      line: `client ${client} line ${offset} ${dice.one(oddTexts)}`,
    }))
    const outputLines = lines.map((it) => ({
      output: it.line,
      stderr: it.stderr,
      localTimestamp: it.timestamp,
      offset: it.offset,
    }))
    return { path: 'output', fields: { context, outputLines }, points: [], lines: lines.map(lineText) }
  }

  function resourceUsage(): Write {
    const place = { context: dice.one(contexts), step: step++, epoch: null, timestamp: startMs + dice.below(1e9) }
    const { path, fields, values } = dice.one(readings)(dice)
    const points = Object.entries(values).map(([metric, value]) => ({ ...place, metric, value }))
    return toWrite(path, { ...place, ...fields }, points)
  }

  const mix = [single, single, single, single, rows, rows, columns, output, output, resourceUsage]
  return { next: () => dice.one(mix)() }
}

type DrawnReading = { path: string; fields: Record<string, unknown>; values: Record<string, number> }

const readings: ((dice: Dice) => DrawnReading)[] = [
  (dice) => {
    const [totalRam, usedRam] = [dice.below(2 ** 40), dice.below(2 ** 40)]
    const values = { 'sys.ram.total': totalRam, 'sys.ram.used': usedRam }
    return { path: 'ram-metrics', fields: { totalRam, usedRam }, values }
  },
  (dice) => {
    const loadAverage = drawValue(dice)
    return { path: 'load-metrics', fields: { loadAverage }, values: { 'sys.load.average': loadAverage } }
  },
  (dice) => {
    const cpuPercentUtilization = Array.from({ length: dice.from(1, 16) }, () => dice.random() * 100)
    const named = cpuPercentUtilization.map((it, cpu) => [`sys.cpu.percent.${String(cpu).padStart(2, '0')}`, it])
    return { path: 'cpu-metrics', fields: { cpuPercentUtilization }, values: Object.fromEntries(named) }
  },
]

function drawValue({ random }: Dice): number {
  return (random() - 0.5) * 10 ** Math.floor(random() * 12 - 6)
}

function toWrite(path: string, fields: Record<string, unknown>, points: PointRow[]): Write {
  return { path, fields, points: points.map(pointText), lines: [] }
}

function toFields({ metric, context, step, epoch, timestamp, value }: PointRow) {
  return { metricName: metric, metricValue: toJsonValue(value), context, step: toJsonStep(step), epoch, timestamp }
}

function toColumns(points: PointRow[]) {
  return {
    metricName: points[0]?.metric,
    context: points[0]?.context,
    steps: points.map((it) => toJsonStep(it.step)),
    timestamps: points.map((it) => it.timestamp),
    values: points.map((it) => toJsonValue(it.value)),
  }
}

/** JSON has no NaN and no infinities, and `JSON.stringify` writes -0 as 0: send those as text. */
function toJsonValue(value: number): number | string {
  return Number.isFinite(value) && !Object.is(value, -0) ? value : valueText(value)
}

function toJsonStep(step: PointRow['step']) {
  return typeof step === 'bigint' ? toJsonInteger(step) : step
}
