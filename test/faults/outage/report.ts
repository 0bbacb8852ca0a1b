import type { Terminal } from '../../../cli/terminal/terminal.ts'
import { toText } from '../../kit/command-line/status-line.ts'
import { outages } from '../cluster/outages.ts'
import { renderRefusals, renderVerified, toLine } from '../kills/report.ts'
import { listOutageFaults, type OutageResult } from './run.ts'

/** Formats the result of an outage. */
export function renderOutage(result: OutageResult, terminal: Terminal): string {
  const { store, minutes, rate, batch, clients, queue, byPhase, peaks, drain, secondsToServe, unexpectedEnds } = result
  return [
    '',
    toLine('outage', `${outages[store].about}, for ${toText(minutes * 60)} s`),
    toLine('load', `${toText(rate)} points/s in requests of ${batch} by ${clients} clients; queue in ${queue}`),
    '',
    terminal.paint(
      'bold',
      toColumns(
        'answers',
        byPhase.map((it) => it.phase),
      ),
    ),
    toColumns(
      'p50, p99 ms',
      byPhase.map((it) => `${toText(it.p50Ms, 1)}, ${toText(it.p99Ms, 1)}`),
    ),
    ...statusesOf(result).map((status) =>
      toColumns(
        `${status}`,
        byPhase.map((it) => toText(it.statuses[status] ?? 0)),
      ),
    ),
    toColumns(
      'not answered',
      byPhase.map((it) => toText(sumOf(it.unanswered))),
    ),
    '',
    ...renderRefusals(byPhase.map((it) => it.refusals)),
    toLine(
      'queue at most',
      `${toText(peaks.queueBlocks)} blocks${queue === 'redis' ? `; Redis ${toMiB(peaks.redisBytes)}` : ''}`,
    ),
    toLine(
      'memory at most',
      `ingest ${toMiB(peaks.ingestBytes)}, worker ${toMiB(peaks.workerBytes)} (resident, of one process)`,
    ),
    toLine(
      'recovery',
      `ready after ${toText(secondsToServe, 1)} s; first new rows ${toText(drain.secondsToFirst, 1)} s later, ` +
        `backlog empty ${toText(drain.secondsToNormal, 1)} s later`,
    ),
    toLine(
      'drain',
      `backlog of ${toText(drain.backlog)} points; stored at ${toText(drain.pointsPerSecond)}/s, ` +
        `${toText(drain.ratio, 1)} times the arrival rate`,
    ),
    ...(unexpectedEnds.length > 0 ? [toLine('crashed', unexpectedEnds.join('\n'))] : []),
    toLine('acknowledged', `${toText(result.acknowledged)} points`),
    ...renderVerified(result.verified, terminal),
    ...listOutageFaults(result).map((it) => `  ${it}`),
    '',
  ].join('\n')
}

function statusesOf({ byPhase }: OutageResult): string[] {
  return [...new Set(byPhase.flatMap((it) => Object.keys(it.statuses)))].sort()
}

function sumOf(counts: Record<string, number>): number {
  return Object.values(counts).reduce((sum, it) => sum + it, 0)
}

function toMiB(bytes: number): string {
  return `${toText(bytes / 2 ** 20)} MiB`
}

const columnWidth = 16

function toColumns(name: string, cells: string[]): string {
  return toLine(name, cells.map((it) => it.padStart(columnWidth)).join(''))
}
