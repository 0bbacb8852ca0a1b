import { type Costs, processNames } from './costs.ts'
import { type Assumptions, mixCosts, type Plan } from './plan.ts'

/** The plans as Markdown, as in `docs/capacity.md`. */
export function describeCapacity(plans: Plan[], costs: Costs, assumed: Assumptions, command: string): string {
  const micros = mixCosts(costs, assumed)
  const columnsShare = 1 - assumed.singleShare - assumed.rowsShare
  const sizes = plans.map((it) => `${whole(it.gpus)} GPUs`)
  const row = (name: string, of: (plan: Plan) => string) => [name, ...plans.map(of)]
  const partNames = plans[0]?.parts.map((it) => it.name) ?? []
  return `# Capacity

<!-- Made by: ${command} -->

What training clusters of three sizes need. This is calculated, not measured at these sizes: from the cost of a point in each process, by
${costs.source}, and from the assumptions below. \`npm run capacity -- --gpus 3000\` calculates it for your numbers. \`--help\` lists the
assumptions as options, \`--json\` is for scripts, and \`--measured\` uses the results of \`npm run bench:compare\` on your machine.

${toTable([
  ['', ...sizes],
  row('points a second, on average', (it) => whole(it.pointsPerSecond)),
  row('at the peak', (it) => whole(it.peakPerSecond)),
  row('on disk a day, one replica', (it) => bytes(it.bytesPerDay)),
  row(`on disk after ${assumed.retentionDays} days, one replica`, (it) =>
    bytes(it.bytesPerDay * assumed.retentionDays),
  ),
  row('ClickHouse', (it) => `${plural(it.clickhouseShards, 'shard')} x ${assumed.clickhouseReplicas} replicas`),
  row('Redis', (it) => plural(it.redisMasters, 'master')),
  row(`memory of Redis, for ${assumed.outageHours} h without ClickHouse at the peak`, (it) => gibs(it.redisMemoryGiB)),
  row('**a month**', (it) => `**$${rounded(it.dollarsPerMonth)}**`),
])}

## Processes, cores, memory, disk

${toTable([
  ['', ...sizes],
  ...partNames.map((name, at) =>
    row(name, (it) => {
      const part = it.parts[at] as Plan['parts'][0]
      const disk = part.diskGiB === 0 ? '' : `, ${gibs(part.diskGiB)} disk`
      return `${part.processes}: ${plural(part.cores, 'core')}, ${gibs(part.memoryGiB)}${disk}`
    }),
  ),
])}

Each line is the sum over its processes.

## What saturates first

The rate that one of each can carry at ${percent(assumed.busyMax)} of its processors, and the peak as a share of it. At 1 or more, add another.

${toTable([
  ['', 'points a second', ...sizes],
  ...(plans[0]?.limits ?? []).map((limit, at) => [
    limit.what,
    rounded(limit.pointsPerSecond),
    ...plans.map((it) => ratio((it.limits[at] as Plan['limits'][0]).share)),
  ]),
])}

- **Ingest** saturates first. It holds only open blocks, so add processes behind the load balancer.
- **Workers** next: add processes. Each makes up to seven inserts per second and table under light load. Many idle workers make
  more parts than few busy ones, so add them only under load (\`docs/scaling.md\`).
- **Redis** runs commands on one thread. Use \`redis+cluster://\` and \`SVC_QUEUE_SHARDS\` for several masters.
- **ClickHouse** holds all points: disk and merges saturate before inserts do. A new shard takes its share of new experiments;
  existing rows stay where they are.
- **Postgres** is asked for an experiment's first point, not for its millionth.

## What a point costs

µs of CPU of each process for a point, with ${percent(columnsShare)} of points as columns, ${percent(assumed.rowsShare)} as rows and ${percent(assumed.singleShare)} one by one:

${toTable([
  ['', 'one by one', 'rows', 'columns', 'as assumed'],
  ...processNames.map((it) => [
    it,
    cost(costs.cpuMicros.single[it]),
    cost(costs.cpuMicros.rows[it]),
    cost(costs.cpuMicros.columns[it]),
    cost(micros[it]),
  ]),
])}

Nothing matters more than how points are sent: a cluster that sends them one by one needs ${ratio(
    processNames.reduce((sum, it) => sum + costs.cpuMicros.single[it], 0) /
      processNames.reduce((sum, it) => sum + micros[it], 0),
  )} times the cores.

## Assumptions

${toTable([
  ['assumed', 'value', 'option'],
  [
    'points a second of a GPU, on average: its part of a run’s metrics, and its resource usage',
    String(assumed.pointsPerGpu),
    '`--points-per-gpu`',
  ],
  ['the peak, as a multiple of the average', String(assumed.peakFactor), '`--peak-factor`'],
  [
    'share of points sent one by one; as rows',
    `${assumed.singleShare}; ${assumed.rowsShare}`,
    '`--single-share`, `--rows-share`',
  ],
  ['days that points are kept', String(assumed.retentionDays), '`--retention-days`'],
  ['how busy processors are at the peak', String(assumed.busyMax), '`--busy-max`'],
  ['hours without ClickHouse that lose no write', String(assumed.outageHours), '`--outage-hours`'],
  [
    'bytes of a waiting point in Redis (`npm run outage`: 167 MiB for 6 million)',
    String(assumed.bytesPerWaitingPoint),
    '`--bytes-per-waiting-point`',
  ],
  ['replicas of a ClickHouse shard', String(assumed.clickhouseReplicas), '`--clickhouse-replicas`'],
  [
    'cores of a ClickHouse server; GiB of memory per core',
    `${assumed.clickhouseCores}; ${assumed.clickhouseGiBPerCore}`,
    '`--clickhouse-cores`, `--clickhouse-gib-per-core`',
  ],
  [
    'GiB of data per extra core of a ClickHouse server, for merges and reads; the most data it holds',
    `${assumed.dataGiBPerCore}; ${assumed.dataGiBPerServer}`,
    '`--data-gib-per-core`, `--data-gib-per-server`',
  ],
  ['disk, as a multiple of the data on it', String(assumed.diskFactor), '`--disk-factor`'],
  [
    'dollars a month: a core, a GiB of memory, a GiB of disk',
    `${assumed.pricePerCore}; ${assumed.pricePerGiBMemory}; ${assumed.pricePerGiBDisk}`,
    '`--price-per-core`, `--price-per-gib-memory`, `--price-per-gib-disk`',
  ],
])}

Not included: assets and their object store, network, the machines that train, support. \`api\` and Postgres have a fixed size,
because their load depends on people and not on points: watch them. The costs were measured with one process of each on two cores that
also carried the load; that they stay the same with many processes is assumed.
`
}

/** Formatted like the formatter of this project does: the first column is text, the others are numbers. */
function toTable(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(3, ...rows.map((it) => it[at]?.length ?? 0)))
  const fit = (cell: string, at: number) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))
  const line = (cells: string[]) => `| ${cells.map(fit).join(' | ')} |`
  const rule = `| ${widths.map((width, at) => (at === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`
  const [head = [], ...others] = rows
  return [line(head), rule, ...others.map(line)].join('\n')
}

const whole = (value: number) => Math.round(value).toLocaleString('en-US')
const percent = (share: number) => `${Math.round(share * 100)}%`
const plural = (count: number, name: string) => `${whole(count)} ${name}${count === 1 ? '' : 's'}`
const cost = (micros: number) => (micros >= 10 ? micros.toFixed(1) : micros.toFixed(2))
const ratio = (value: number) => (value >= 10 ? whole(value) : value.toFixed(value >= 0.1 ? 1 : 3))
/** Two digits: more would be a promise. */
const rounded = (value: number) => Number(value.toPrecision(2)).toLocaleString('en-US')
const gibs = (value: number) => `${rounded(value)} GiB`

function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, value)) / 3))
  return `${rounded(value / 1000 ** power)} ${units[power]}`
}
