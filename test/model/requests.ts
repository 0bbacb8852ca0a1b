import type { Row, Send, Sequence } from './sequence.ts'

export type Point = {
  metric: string
  context: string
  value: number
  step: bigint | undefined
  epoch: bigint | undefined
  timestamp: bigint | undefined
}

export type Line = { text: string; offset: bigint | undefined; timestamp: bigint | undefined }

/** A request with its points and lines, in order. */
export type Request = {
  call: 'metric' | 'metrics/batch' | 'output'
  key: string | undefined
  times: number
  points: Point[]
  lines: Line[]
  /** The body, without the experiment key. */
  fields: Record<string, unknown>
}

const clockStartMs = 1_700_000_000_000n

/** The requests of the writers' commands. */
export function toRequests({ groups }: Sequence): Request[][] {
  const steps = new Map<number, bigint>()
  let clock = clockStartMs
  let sends = 0

  function toPoint(writer: number, row: Row): Point {
    const step = steps.get(writer) ?? 0n
    if (row.step === 'next') steps.set(writer, step + 1n)
    return {
      metric: row.metric,
      context: row.context,
      value: row.value,
      step: row.step === 'next' ? step + 1n : row.step === 'same' ? step : row.step === 'absent' ? undefined : row.step,
      epoch: row.epoch,
      timestamp: row.time === 'ticks' ? clock++ : row.time === 'absent' ? undefined : row.time,
    }
  }

  function toRequest(send: Send): Request {
    const number = sends++
    const key = send.key === 'none' ? undefined : send.key === 'own' ? `own ${number}` : send.key
    const points = send.rows.map((row) => toPoint(send.writer, row))
    const common = { key, times: send.times, points: [] as Point[], lines: [] as Line[] }
    if (send.as === 'lines') {
      const lines = points.map((it, at) => toLine(it, `${number} ${at}`))
      return { ...common, call: 'output', lines, fields: { outputLines: lines.map(toLineFields) } }
    }
    if (send.as === 'point') {
      const point = points[0] as Point
      return { ...common, call: 'metric', points: [point], fields: toFields(point) }
    }
    const inRows = send.as === 'rows' ? points : send.as === 'columns' ? [] : points.slice(0, points.length / 2)
    const series = [...Map.groupBy(points.slice(inRows.length), (it) => `${it.context} ${it.metric}`).values()]
    return {
      ...common,
      call: 'metrics/batch',
      points: [...inRows, ...series.flat()],
      fields: { metrics: inRows.map(toFields), series: series.map(toSeries) },
    }
  }

  return groups.map((group) =>
    group.flatMap((command) => {
      if (command.kind === 'send') return [toRequest(command)]
      const step = (steps.get(command.writer) ?? 0n) - BigInt(command.stepsBack)
      steps.set(command.writer, step < 0n ? 0n : step)
      return []
    }),
  )
}

/** Lines are unique, so that their order shows. */
function toLine({ step, timestamp }: Point, name: string): Line {
  return { text: `line ${name}\n`, offset: step, timestamp }
}

const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown }

/** All digits of an integer; JSON.stringify leaves out what is undefined. */
const toInteger = (value: bigint | undefined) => (value === undefined ? undefined : rawJSON(String(value)))

function toValue(value: number): unknown {
  if (!Number.isFinite(value)) return String(value)
  return rawJSON(toText(value))
}

/** The value as text that is the same only for the same bits; all NaN are one. */
export function toText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value)
}

function toFields({ metric, context, value, step, epoch, timestamp }: Point) {
  return {
    metricName: metric,
    metricValue: toValue(value),
    context: context === '' ? undefined : context,
    step: toInteger(step),
    epoch: toInteger(epoch),
    timestamp: toInteger(timestamp),
  }
}

/** Points of one series as columns; in a list `null` means absent. */
function toSeries(points: Point[]) {
  const [{ metric, context }] = points as [Point]
  const column = (name: 'step' | 'epoch' | 'timestamp') => points.map((it) => toInteger(it[name]) ?? null)
  return {
    metricName: metric,
    context,
    steps: column('step'),
    epochs: column('epoch'),
    timestamps: column('timestamp'),
    values: points.map((it) => toValue(it.value)),
  }
}

function toLineFields({ text, offset, timestamp }: Line) {
  return { output: text, offset: toInteger(offset), localTimestamp: toInteger(timestamp) }
}
