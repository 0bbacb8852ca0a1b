import { memoryBytesMax, type Report, toMebibytes } from './run.ts'

/** Formats the report: answers by kind, the other clients, and violations. */
export function renderReport(report: Report): string {
  const { requests, seconds, held, wellBehaved, memory, violations, errors, seed } = report
  const whole = (value: number) => Math.round(value).toLocaleString('en-US')
  const lines = [
    `${whole(requests)} malformed requests in ${whole(seconds)} s (${whole(requests / seconds)}/s), seed ${seed}`,
    '',
    ...renderStatuses(report),
    '',
    `Held connections: ${whole(held.held)}, of which the server ended ${whole(held.endedByServer)}, the longest after ` +
      `${whole(held.longestMs / 1_000)} s`,
    `The well-behaved client: ${whole(wellBehaved.writes)} writes and ${whole(wellBehaved.reads)} reads, none failed; ` +
      `${whole(wellBehaved.points)} points acknowledged, all read back; a write took ${wellBehaved.p50Ms.toFixed(1)} ms ` +
      `(median), ${wellBehaved.p99Ms.toFixed(1)} ms (99th percentile)`,
    memory
      ? `Memory of the service: ${toMebibytes(memory.start)} MiB at the start, ${toMebibytes(memory.peak)} MiB at the ` +
        `peak, ${toMebibytes(memory.end)} MiB at the end (limit ${toMebibytes(memoryBytesMax)} MiB)`
      : 'Memory of the service: unknown (only Linux has /proc)',
    '',
    ...errors.flatMap((it) => [
      `Request ${it.number} (${it.kind}): ${it.what}`,
      `  sent    ${it.request}`,
      `  got     ${it.answer}`,
      `  again   npm run malformed -- --seed ${seed} --only ${it.number}`,
    ]),
    violations.length === 0 ? 'No violation.' : `${violations.length} violations:`,
    ...violations.map((it) => `  ${it}`),
  ]
  return `${lines.join('\n')}\n`
}

function renderStatuses({ statuses }: Report): string[] {
  const columns = [...new Set(Object.values(statuses).flatMap((it) => Object.keys(it)))].toSorted()
  const kinds = Object.keys(statuses).toSorted((a, b) => a.localeCompare(b))
  const width = Math.max(...kinds.map((it) => it.length))
  const cell = (value: string | number) => value.toLocaleString('en-US').padStart(9)
  const total = (status: string) => kinds.reduce((sum, kind) => sum + (statuses[kind]?.[status] ?? 0), 0)
  return [
    `${'answered with'.padEnd(width)}${columns.map(cell).join('')}`,
    ...kinds.map((kind) => `${kind.padEnd(width)}${columns.map((it) => cell(statuses[kind]?.[it] ?? '')).join('')}`),
    `${'all'.padEnd(width)}${columns.map((it) => cell(total(it))).join('')}`,
  ]
}
