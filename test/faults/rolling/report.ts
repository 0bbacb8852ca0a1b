import type { Terminal } from '../../../cli/terminal/terminal.ts'
import { toText } from '../../kit/command-line/status-line.ts'
import { renderVerified, toLine } from '../kills/report.ts'
import { listDifferences } from '../verify/verification.ts'
import { listRefusals, type RollingResult } from './run.ts'

/** Formats the result of a rolling restart. */
export function renderRolling(result: RollingResult, terminal: Terminal): string {
  const { from, migratedSeconds, replaced, seconds, acknowledged, reads, verified } = result
  const each = Object.entries(replaced).map(([role, count]) => `${count} ${role}`)
  const refusals = listRefusals(result)
  const verdict = refusals.length === 0 ? terminal.paint('green', 'none') : terminal.paint('red', refusals.join('\n'))
  return [
    '',
    ...(from === undefined
      ? []
      : [
          toLine('versions', `${from.slice(0, 7)}, working tree, ${from.slice(0, 7)}, working tree`),
          toLine('svc migrate', `${toText(migratedSeconds ?? 0)} s under load`),
        ]),
    toLine('replaced', `${each.join(', ')} in ${toText(seconds)} s`),
    toLine(
      'acknowledged',
      `${toText(acknowledged.points)} points and ${toText(acknowledged.lines)} lines of output ` +
        `in ${toText(acknowledged.requests)} requests`,
    ),
    toLine('read meanwhile', `${toText(reads.answered)} times, ${toText(reads.repeated)} of them sent again`),
    toLine('refused, failed', verdict),
    ...renderVerified(verified, terminal),
    ...listDifferences(verified, []).map((it) => `  ${it}`),
    '',
  ].join('\n')
}
