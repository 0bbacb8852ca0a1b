import { readFile } from 'node:fs/promises'
import type { Compared } from '../report/report.ts'
import { median } from '../report/report.ts'
import { readResults } from '../report/results.ts'

/** The measured cost of points: CPU of each process in µs per point, by request format. */
export type Costs = {
  source: string
  cpuMicros: Record<Scenario, Record<ProcessName, number>>
  /** On disk in ClickHouse, one replica. */
  bytesPerPoint: number
  ingestMiB: number
  workerMiB: number
}

export const scenarioNames = ['single', 'rows', 'columns'] as const
type Scenario = (typeof scenarioNames)[number]

export const processNames = ['ingest', 'worker', 'clickhouse', 'postgres', 'redis'] as const
export type ProcessName = (typeof processNames)[number]

const readme = new URL('../README.md', import.meta.url)

/**
 * Reads the costs that `bench:profile` and `bench:report` wrote into `bench/README.md`.
 *
 * @throws Error if one of them is missing
 */
export async function readWrittenCosts(): Promise<Costs> {
  const text = await readFile(readme, 'utf8')
  const cpuMicros = Object.fromEntries(scenarioNames.map((it) => [it, toProcesses(text, it)])) as Costs['cpuMicros']
  const columns = text.slice(text.indexOf('| **1,000 points a request, as columns**'))
  const figure = (name: string, within = text) => {
    const found = new RegExp(`^\\| ${name} +\\| +([\\d.,]+)`, 'm').exec(within)?.[1]
    if (found === undefined) throw new Error(`bench/README.md has no figure "${name}": run "npm run bench:report".`)
    return Number(found.replaceAll(',', ''))
  }
  const profiles = text.slice(0, Math.max(0, text.indexOf(`\n**${scenarioNames[0]}** (`)))
  const at = [...profiles.matchAll(/(\d{4}-\d{2}-\d{2})_\n/g)].at(-1)?.[1] ?? 'an unknown day'
  return {
    source: `the tables of bench/README.md (${at})`,
    cpuMicros,
    bytesPerPoint: figure('bytes per point', columns),
    ingestMiB: figure('memory of ingest at its peak'),
    workerMiB: figure('memory of worker at its peak'),
  }
}

/** Sums the rows of each process in the table of a scenario. */
function toProcesses(text: string, scenario: Scenario): Record<ProcessName, number> {
  const from = text.indexOf(`\n**${scenario}** (`)
  const table = from === -1 ? '' : (text.slice(from).split('\n\n')[1] ?? '')
  const sums = Object.fromEntries(processNames.map((it) => [it, 0])) as Record<ProcessName, number>
  for (const [, name, micros] of table.matchAll(/^\| (\w+) +\|.*\| +([\d.]+) \|[^|]*\|$/gm)) {
    if (name !== undefined && name in sums) sums[name as ProcessName] += Number(micros)
  }
  const missing = processNames.find((it) => sums[it] === 0)
  if (missing)
    throw new Error(`bench/README.md has no ${missing} in the table "${scenario}": run "npm run bench:profile".`)
  return sums
}

/** Like `readWrittenCosts`, but the newest results of `npm run bench:compare` on this machine take precedence. */
export async function readMeasuredCosts(): Promise<Costs> {
  const costs = await readWrittenCosts()
  const kept = (await readResults()).filter((it) => it.command === 'compare')
  const found: string[] = []
  for (const scenario of scenarioNames) {
    const run = kept.findLast((it) => (it.results as Compared[]).some((one) => one.comparison === scenario))
    const compared = (run?.results as Compared[] | undefined)?.find((it) => it.comparison === scenario)
    const ours = compared?.measured.find((it) => it.scenario === scenario)
    if (!run || !ours || ours.rounds.some((it) => it.cpuMicros === undefined)) continue
    for (const name of processNames) {
      const micros = ours.rounds.map((it) => it.cpuMicros?.[name] ?? 0)
      costs.cpuMicros[scenario][name] = median(micros)
    }
    if (scenario === 'columns' && ours.bytesPerPoint) costs.bytesPerPoint = ours.bytesPerPoint
    found.push(`${scenario} of ${run.at.slice(0, 10)}`)
  }
  if (found.length === 0) throw new Error('bench/results has no runs of "npm run bench:compare": run it first.')
  return { ...costs, source: `bench/results (${found.join(', ')})` }
}
