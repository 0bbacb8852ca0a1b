import { toMebibytes } from '../malformed/run.ts'
import type { Report } from './run.ts'

/** A table of the classes, and what did not hold. */
export function renderReport({ classes, seconds, proxies, memoryPeak, violations }: Report): string {
  const width = Math.max(...classes.map((it) => it.name.length), 'attack'.length)
  const row = (name: string, ...cells: (string | number)[]) =>
    name.padEnd(width) + cells.map((it) => String(it).padStart(8)).join('')
  const sum = (of: 'tried' | 'held') => classes.reduce((total, it) => total + it[of], 0)
  const lines = [
    row('attack', 'tried', 'held', 's'),
    ...classes.map((it) => row(it.name, it.tried, it.held, it.seconds.toFixed(1))),
    row('all', sum('tried'), sum('held'), seconds.toFixed(1)),
    '',
    `In front of it were tried: ${proxies.join(', ') || 'no proxy, because neither nginx nor Caddy is installed here'}.`,
    ...(memoryPeak === undefined ? [] : [`The service took ${toMebibytes(memoryPeak)} MiB of memory at most.`]),
    violations.length === 0 ? 'All held.' : `${violations.length} did not hold:`,
    ...violations.map((it) => `  ${it}`),
  ]
  return `${lines.join('\n')}\n`
}
