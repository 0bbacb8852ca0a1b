import type { Terminal } from '../terminal/terminal.ts'
import { type ChartFrame, type ChartSeries, renderChart } from './chart.ts'
import { toWireNumber } from './ledger.ts'
import type { ReadBack } from './read-back.ts'
import type { RunOutcome } from './run.ts'

/** One experiment in the report; counts are points of metrics, the machine's included, times are milliseconds. */
export interface ExperimentReport {
  name: string
  key: string
  link: string
  learningRate: number
  end: RunOutcome['end']
  steps: number
  pointsLogged: number
  pointsAcknowledged: number
  pointsReadBack: number
  /** Numbers that JSON lacks are strings, such as "NaN". */
  finalTrainLoss: number | string
  /** Share, 0 to 1; null when no epoch was finished. */
  bestValidateAccuracy: number | null
  /** Steps whose loss was NaN or infinite. */
  brokenSteps: number
  firstBrokenStep: number | null
  trainingMs: number
  durationMs: number
  readBackMs: number
  readsCompared: number
  /** Refused points and differences between logged and read values; empty if there are none. */
  mismatches: string[]
  /** The URL of its loss. */
  getMetricUrl: string
}

export interface DemoReport {
  /** True if everything logged was read back, value for value. */
  ok: boolean
  url: string
  workspaceName: string
  projectName: string
  epochs: number
  seed: number
  trainingMs: number
  experiments: ExperimentReport[]
}

/** The report of one experiment. */
export function toExperimentReport(url: string, run: RunOutcome, read: ReadBack): ExperimentReport {
  const { ledger } = run
  const query = new URLSearchParams({ experimentKey: ledger.experimentKey, metricName: 'train_loss', maxPoints: '100' })
  return {
    name: ledger.experimentName,
    key: ledger.experimentKey,
    link: ledger.link,
    learningRate: run.plan.learningRate,
    end: run.end,
    steps: run.steps,
    pointsLogged: ledger.points.length + ledger.systemPoints.length,
    pointsAcknowledged: run.acknowledged,
    pointsReadBack: read.pointsRead,
    finalTrainLoss: toWireNumber(run.finalTrainLoss),
    bestValidateAccuracy: run.bestValidateAccuracy,
    brokenSteps: run.brokenSteps,
    firstBrokenStep: run.firstBrokenStep,
    trainingMs: Math.round(run.trainingMs),
    durationMs: Math.round(run.durationMs),
    readBackMs: Math.round(read.durationMs),
    readsCompared: read.reads,
    mismatches: [...run.refusals, ...read.mismatches],
    getMetricUrl: `${url.replace(/\/$/, '')}/api/rest/v2/experiment/metrics/get-metric?${query}`,
  }
}

/** The report as lines for a terminal: a table, a chart of the losses, the result of the comparison, and URLs. */
export function renderReport(report: DemoReport, runs: RunOutcome[], terminal: Terminal): string[] {
  const { paint } = terminal
  const outcome = report.ok
    ? paint('green', `Everything logged was read back, value for value (${countReads(report)} reads compared).`)
    : paint('red', 'Read values differ from logged values:')
  return [
    '',
    ...renderTable(report.experiments, terminal),
    '',
    ...renderChart(toSeries(runs), toFrame(runs, terminal), terminal),
    '',
    outcome,
    ...report.experiments.flatMap(({ name, mismatches }) => mismatches.map((mismatch) => `  ${name}: ${mismatch}`)),
    '',
    `Training took ${toSeconds(report.trainingMs)} in all. Look further, with your key in $KEY:`,
    ...report.experiments.map(({ getMetricUrl }) => `  curl -H "Authorization: $KEY" '${getMetricUrl}'`),
    '',
  ]
}

function renderTable(experiments: ExperimentReport[], { paint }: Terminal): string[] {
  const rows: [string, (experiment: ExperimentReport) => string][] = [
    ['experiment', ({ name }) => name],
    ['key', ({ key }) => key],
    ['points logged', ({ pointsLogged }) => pointsLogged.toLocaleString('en')],
    ['points read back', ({ pointsReadBack }) => pointsReadBack.toLocaleString('en')],
    ['final train loss', ({ finalTrainLoss }) => toDigits(finalTrainLoss)],
    ['best validation accuracy', ({ bestValidateAccuracy }) => toPercent(bestValidateAccuracy)],
    ['duration', ({ durationMs, trainingMs }) => `${toSeconds(durationMs)} (training ${toSeconds(trainingMs)})`],
    ['steps', ({ steps }) => steps.toLocaleString('en')],
    ['steps with NaN', toBroken],
  ]
  const texts = rows.map(([title, toText]) => [title, ...experiments.map(toText)])
  const widths = texts[0]?.map((_, column) => Math.max(...texts.map((row) => row[column]?.length ?? 0))) ?? []
  return texts.map((row, index) => {
    const [title, ...values] = row.map((text, column) => text.padEnd(widths[column] ?? 0))
    const told = values.join('   ').trimEnd()
    return `${paint('dim', title ?? '')}   ${index === 0 ? paint('bold', told) : told}`
  })
}

function toBroken({ brokenSteps, firstBrokenStep }: ExperimentReport): string {
  return firstBrokenStep === null ? '0' : `${brokenSteps} (from step ${firstBrokenStep} on)`
}

// The losses per step: the first run in braille, the others with marks, so that they differ without colours too.
function toSeries(runs: RunOutcome[]): ChartSeries[] {
  return runs.map(({ ledger, plan, firstBrokenStep }, index) => {
    const losses = ledger.points.filter((point) => point.metricName === 'loss' && point.context === 'train')
    const broken = firstBrokenStep === null ? '' : ` (NaN from step ${firstBrokenStep} on)`
    return {
      name: `learning rate ${plan.learningRate}${broken}`,
      points: losses.map((point) => ({ x: point.step ?? 0, y: point.metricValue })),
      mark: index === 0 ? 'braille' : 'x',
      colour: index === 0 ? 'cyan' : 'red',
    }
  })
}

function toFrame(runs: RunOutcome[], terminal: Terminal): ChartFrame {
  const steps = Math.max(10, ...runs.map((run) => run.steps))
  return {
    width: Math.max(30, Math.min(84, terminal.columns - 14)),
    height: 14,
    xLabel: 'step',
    yLabel: `train loss per step (log-log, mean per column, ${terminal.isUnicode ? '▲' : '^'} above the top)`,
    x: [1, steps],
    // A diverging loss passes through 300 decades within a few steps: beyond these it is only "above the top".
    y: [1e-3, 1e3],
  }
}

function countReads(report: DemoReport): number {
  return report.experiments.reduce((sum, experiment) => sum + experiment.readsCompared, 0)
}

function toSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

function toDigits(value: number | string): string {
  return typeof value === 'number' ? value.toPrecision(4) : value
}

function toPercent(share: number | null): string {
  return share === null ? 'no epoch finished' : `${(100 * share).toFixed(2)} %`
}
