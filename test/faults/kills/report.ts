import type { Terminal } from '../../../cli/terminal/terminal.ts'
import { toText } from '../../kit/command-line/status-line.ts'
import type { Tally } from '../load/tally.ts'
import { type Difference, isSame } from '../verify/comparison.ts'
import { listDifferences, type Verified } from '../verify/verification.ts'
import type { FaultsResult } from './run.ts'

/** Formats the result of a run of kills. */
export function renderFaults(result: FaultsResult, terminal: Terminal): string {
  const { killed, acknowledged, answers, verified, seconds, restarts, unexpectedEnds } = result
  const kinds = Object.entries(killed.byKind).map(([kind, count]) => `${count} ${kind}`)
  const slowest = Object.entries(restarts).filter(([, ms]) => ms > 0)
  return [
    '',
    toLine('kills', `${killed.inAll} by SIGKILL in ${toText(seconds)} s: ${kinds.join(', ')}`),
    toLine(
      '',
      `${killed.twoAtOnce} times two at once; ${killed.stops} stops by SIGSTOP, ` +
        `${killed.hungWorkers} of them of a worker for longer than its lock`,
    ),
    toLine(
      'acknowledged',
      `${toText(acknowledged.points)} points and ${toText(acknowledged.lines)} lines of output ` +
        `in ${toText(acknowledged.requests)} requests`,
    ),
    ...renderAnswers(answers),
    toLine('restart', slowest.map(([kind, ms]) => `${kind} ${toText(ms / 1_000, 1)} s`).join(', ')),
    toLine('', '(the slowest of each, from a kill until ready; includes further kills, stops and waiting for stores)'),
    ...(unexpectedEnds.length > 0 ? [toLine('crashed', unexpectedEnds.join('\n'))] : []),
    ...renderVerified(verified, terminal),
    ...listDifferences(verified, answers.unexpected).map((it) => `  ${it}`),
    '',
  ].join('\n')
}

/** Answers by status. */
function renderAnswers({ statuses, refusals, unanswered, unexpectedCount }: ReturnType<Tally['report']>): string[] {
  const answered = Object.entries(statuses).map(([status, count]) => `${toText(count)} x ${status}`)
  const silent = Object.entries(unanswered).map(([reason, count]) => `${toText(count)} x ${reason}`)
  const others = unexpectedCount === 0 ? 'no status but 200, 429 and 503' : `${unexpectedCount} unexpected answers`
  return [
    toLine('answers', `${answered.join(', ')} (${others})`),
    ...renderRefusals([refusals]),
    toLine('connections', silent.length === 0 ? 'none broke' : silent.join(', ')),
  ]
}

/** Messages of rejected requests, the most frequent first. */
export function renderRefusals(refusals: Record<string, number>[]): string[] {
  const counts = new Map<string, number>()
  for (const [reason, count] of refusals.flatMap(Object.entries)) counts.set(reason, (counts.get(reason) ?? 0) + count)
  const sorted = [...counts].toSorted(([, a], [, b]) => b - a).slice(0, reasonsShown)
  return sorted.map(([reason, count], index) => toLine(index === 0 ? 'refused' : '', `${toText(count)} x ${reason}`))
}

const reasonsShown = 5

/** The result of each comparison. */
export function renderVerified({ overHttp, inClickHouse }: Verified, terminal: Terminal): string[] {
  return [
    toLine('read over HTTP', toVerdict(overHttp, terminal)),
    toLine('in ClickHouse', toVerdict(inClickHouse, terminal)),
  ]
}

function toVerdict(difference: Difference, terminal: Terminal): string {
  const { rows, lost, repeated, altered } = difference
  const verdict = `${toText(lost)} lost, ${toText(repeated)} repeated, ${toText(altered)} altered`
  return `${terminal.paint(isSame(difference) ? 'green' : 'red', verdict)} (${toText(rows)} rows compared)`
}

const nameWidth = 16

export function toLine(name: string, text: string): string {
  return `  ${name.padEnd(nameWidth)}  ${text}`
}
