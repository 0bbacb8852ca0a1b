import { parseArgs } from 'node:util'
import { readWholeNumber, writeJson } from '../kit/command-line/options.ts'
import { runTool } from '../kit/command-line/run-tool.ts'
import { openFolder } from '../kit/folder.ts'
import { renderReport } from './report.ts'
import { runMalformed, toMebibytes } from './run.ts'

/** `npm run malformed`: sends malformed requests of every kind to its own service and checks the answers. */
const usage = `Usage: npm run malformed -- [options]

Starts the whole service (svc up on embedded stores, in a temporary folder) and sends it malformed requests of every kind,
while slow clients hold connections and one client sends valid requests. Exits with 1 when an answer is wrong, the service
ends or uses too much memory, or the valid client meets an error.

  --requests N    how many (default 1000000: about ten minutes)
  --seed N        which ones (default: random, printed)
  --only N        only request number N, to repeat a reported one
  --kind TEXT     only kinds whose name contains TEXT
  --senders N     sending processes (default 2)
  --held N        connections of slow clients (default 280)
  --json FILE     also write the result as JSON
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
  const whole = (name: 'requests' | 'seed' | 'only' | 'senders' | 'held', least: number) =>
    readWholeNumber(name, values[name] ?? '', least)
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

await runTool('malformed', async ({ closers }) => {
  const { help, json, ...options } = readOptions()
  if (help) {
    process.stdout.write(usage)
    return 0
  }
  const environment = { SVC_DATA_DIR: await openFolder(closers) }
  const onProgress = (sent: number, memoryBytes = 0) =>
    process.stderr.write(`${sent} sent; the service uses ${toMebibytes(memoryBytes)} MiB\n`)
  const report = await runMalformed({ ...options, environment, onProgress, closers })
  process.stdout.write(renderReport(report))
  await writeJson(json, report)
  return report.violations.length > 0 ? 1 : 0
})
