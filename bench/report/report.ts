import type { Terminal } from '../../cli/terminal/terminal.ts'
import type { Comparison } from '../contenders/comparisons.ts'
import type { Measured, Round } from '../contenders/contender.ts'

/** The results of one comparison, and the reasons why some sides did not run. */
export type Compared = { comparison: string; measured: Measured[]; absent: string[] }

/** The table of medians, each with its minimum and maximum round, and the distribution of CPU time. */
export function renderReport(results: Measured[], terminal: Terminal): string {
  const head = ['scenario', 'queue', 'CPU µs/point', 'points/s stored', 'p50 ms', 'p99 ms', 'bytes/point']
  const rows = results.map((it) => [
    it.scenario,
    it.queue,
    spread(it.rounds.map(totalCpu), 2),
    spread(
      it.rounds.map((round) => round.pointsPerSecond),
      0,
    ) + (it.verified ? '' : ' *'),
    spread(
      it.rounds.map((round) => round.p50Ms),
      1,
    ),
    spread(
      it.rounds.map((round) => round.p99Ms),
      1,
    ),
    it.bytesPerPoint?.toFixed(2) ?? '-',
  ])
  const ours = ['ingest', 'worker', 'api', 'up', 'clickhouse', 'postgres', 'redis']
  const found = new Set(results.flatMap((it) => it.rounds.flatMap((round) => Object.keys(round.cpuMicros ?? {}))))
  const processes = [...found].toSorted((a, b) => ours.indexOf(a) - ours.indexOf(b))
  const shares = results.map((it) => [
    it.scenario,
    it.queue,
    ...processes.map((name) => {
      const micros = it.rounds.flatMap((round) => round.cpuMicros?.[name] ?? [])
      return micros.length === 0 ? '-' : toText(median(micros), 2)
    }),
  ])
  const peaks = results.map((it) => {
    const memory = Object.entries(it.peakMiB ?? {}).map(([name, mib]) => `${name} ${Math.round(mib)}`)
    return [it.scenario, it.queue, memory.join(', ') || '-', it.durability, it.versions]
  })
  return [
    'Median (least - greatest round)\n',
    renderTable([head, ...rows], terminal),
    results.some((it) => !it.verified) ? '* answered, not stored\n' : '',
    '\nCPU µs/point by process, medians\n',
    renderTable([['scenario', 'queue', ...processes], ...shares], terminal),
    '\nMemory at its peak (MiB), what an acknowledged point is safe from, and versions\n',
    renderTable([['scenario', 'queue', 'peak MiB', 'durability', 'versions'], ...peaks], terminal, { left: 5 }),
    ...results.flatMap((it) =>
      Object.entries(it.errors).map(([what, count]) => `\n${it.scenario} on ${it.queue}: ${count} times ${what}`),
    ),
    '\n',
  ].join('\n')
}

export function totalCpu({ cpuMicros }: Round): number {
  return cpuMicros ? Object.values(cpuMicros).reduce((sum, it) => sum + it, 0) : Number.NaN
}

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2
}

export function spread(values: number[], digits: number): string {
  if (values.some(Number.isNaN)) return '-'
  const [least, greatest] = [Math.min(...values), Math.max(...values)]
  return `${toText(median(values), digits)} (${toText(least, digits)} - ${toText(greatest, digits)})`
}

function toText(value: number, digits: number): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

/** The first `left` columns are text, the others are numbers. */
export function renderTable(rows: string[][], terminal: Terminal, { left } = { left: 2 }): string {
  const widths = (rows[0] as string[]).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] as string).length)),
  )
  return rows
    .map((row, index) => {
      const line = row.map((cell, column) =>
        column < left ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      const text = `  ${line.join('  ')}`.trimEnd()
      return index === 0 ? terminal.paint('bold', text) : text
    })
    .join('\n')
}

/** A comparison as a table. Each row ends with the rate and the CPU of the first side as multiples of that side's. */
export function renderComparison(
  { name, about, isNoRace }: Comparison,
  { measured, absent }: Compared,
  terminal: Terminal,
): string {
  const rateOf = ({ rounds }: Measured) => median(rounds.map((it) => it.pointsPerSecond))
  const cpuOf = ({ rounds }: Measured) => median(rounds.map(totalCpu))
  const first = isNoRace ? undefined : measured[0]
  const rows = measured.map((it) => [
    it.scenario,
    it.queue,
    spread(it.rounds.map(totalCpu), 2),
    spread(
      it.rounds.map((round) => round.pointsPerSecond),
      0,
    ) + (it.verified ? '' : ' *'),
    first ? `${toText(rateOf(first) / rateOf(it), 2)}x` : '-',
    first ? `${toText(cpuOf(first) / cpuOf(it), 2)}x` : '-',
    toText(median(it.rounds.map((round) => round.p50Ms)), 1),
    toText(median(it.rounds.map((round) => round.p99Ms)), 1),
    it.bytesPerPoint?.toFixed(2) ?? '-',
  ])
  const head = ['side', 'queue', 'CPU µs/point', 'points/s stored', 'we', 'our CPU', 'p50 ms', 'p99 ms', 'bytes/point']
  const facts = measured.map((it) => {
    const memory = Object.entries(it.peakMiB ?? {}).map(([process, mib]) => `${process} ${Math.round(mib)}`)
    return [it.scenario, it.durability, it.versions, memory.join(', ') || '-']
  })
  return [
    `\n${name}: ${about}. Median (least - greatest round); "we" and "our CPU" are the first side by this one\n`,
    renderTable([head, ...rows], terminal),
    measured.some((it) => !it.verified) ? '* answered, not stored\n' : '',
    renderTable([['side', 'durability', 'versions', 'peak MiB'], ...facts], terminal, { left: 4 }),
    ...absent.map((it) => `\n${it}`),
    ...measured.flatMap((it) =>
      Object.entries(it.errors).map(([what, count]) => `\n${it.scenario}: ${count} times ${what}`),
    ),
    '',
  ].join('\n')
}
