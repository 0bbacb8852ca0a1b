import { parseArgs } from 'node:util'
import { readWholeNumber, writeJson } from '../kit/command-line/options.ts'
import { runTool } from '../kit/command-line/run-tool.ts'
import { openFolder } from '../kit/folder.ts'
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
