import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { renderReport } from './report.ts'
import { runMalformed, toMebibytes } from './run.ts'

/** `npm run malformed`: sends malformed requests of every kind to a service of its own, and tells what came of it. */
const usage = `Usage: npm run malformed -- [options]

Starts the whole service (svc up on embedded stores, in a temporary folder) as a process of its own and sends it malformed
requests of every kind, while slow clients hold on to connections and one client does everything right. Ends with 1 when
an answer is not as it must be, the service ends or takes too much memory, or the right client is done wrong.

  --requests N    how many (default 1000000: some ten minutes)
  --seed N        which ones (default: drawn, and told)
  --only N        only the request with this number, to repeat one that was told
  --kind TEXT     only those whose kind has this in its name
  --senders N     processes that send (default 2)
  --held N        connections held by slow clients at any time (default 280)
  --json FILE     write the outcome as JSON, too
`

function readOptions() {
  const { values } = parseArgs({
    options: {
      requests: { type: 'string', default: '1000000' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      only: { type: 'string' },
      kind: { type: 'string', default: '' },
      senders: { type: 'string', default: '2' },
      held: { type: 'string', default: '280' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const whole = (name: 'requests' | 'seed' | 'only' | 'senders' | 'held', least: number) => {
    const number = Number(values[name])
    if (Number.isInteger(number) && number >= least) return number
    throw new Error(`--${name} must be a whole number from ${least}.`)
  }
  const only = values.only === undefined ? undefined : whole('only', 0)
  return {
    help: values.help,
    json: values.json,
    kind: values.kind,
    seed: whole('seed', 0),
    first: only ?? 0,
    end: only === undefined ? whole('requests', 1) : only + 1,
    senders: whole('senders', 1),
    held: whole('held', 0),
  }
}

const interrupted = 130

async function main() {
  const { help, json, ...options } = readOptions()
  if (help) return void process.stdout.write(usage)
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-malformed-'))
  try {
    const onProgress = (sent: number, memoryBytes = 0) =>
      process.stderr.write(`${sent} sent; the service takes ${toMebibytes(memoryBytes)} MiB\n`)
    const report = await runMalformed({ ...options, environment: { SVC_DATA_DIR: folder }, onProgress })
    process.stdout.write(renderReport(report))
    if (json) await writeFile(json, `${JSON.stringify(report, null, 2)}\n`)
    if (report.violations.length > 0) process.exitCode = 1
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(interrupted))

try {
  await main()
} catch (error) {
  process.stderr.write(`malformed: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
