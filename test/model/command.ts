import { parseArgs } from 'node:util'
import { readWholeNumber } from '../kit/command-line/options.ts'
import { runTool } from '../kit/command-line/run-tool.ts'
import { openFolder } from '../kit/folder.ts'
import { createClient } from '../kit/http/client.ts'
import { startWatchedService } from '../kit/processes/watched-service.ts'
import { checkSequences } from './check.ts'

/** `npm run model`: plays sequences of writes against its own service and compares each with the model. */
const usage = `Usage: npm run model -- [options]

Starts the whole service (svc up on embedded stores, in a temporary folder), plays random sequences of writes by up to 64
writers, fifty at once, and compares every read with a simple model. Exits with 1 and the smallest counterexample it can
find when a read differs.

  --sequences N   how many (default 10000: about twenty minutes)
  --seed N        which ones (default: random, printed)
  --path P        only the reported counterexample with this path and its seed
`

const progressEvery = 100
const apiKey = 'svc_model_0123456789abcdef'

await runTool('model', async ({ closers }) => {
  const { values } = parseArgs({
    options: {
      sequences: { type: 'string', default: '10000' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
      path: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) {
    process.stdout.write(usage)
    return 0
  }
  const count = readWholeNumber('sequences', values.sequences, 1)
  const seed = readWholeNumber('seed', values.seed, 0)

  const environment = {
    SVC_DATA_DIR: await openFolder(closers),
    SVC_BOOTSTRAP_API_KEY: apiKey,
    SVC_LOG_LEVEL: 'warn',
  }
  const service = await startWatchedService(environment, closers)
  const startedAt = performance.now()
  let played = 0
  const onPlayed = () => {
    if (++played % progressEvery === 0) process.stderr.write(`${played} played\n`)
  }
  const client = createClient(service.url, { apiKey, workspaceName: 'default' })
  await checkSequences({ client, count, seed, path: values.path, onPlayed })
  const seconds = Math.round((performance.now() - startedAt) / 1_000)
  process.stdout.write(`${played} sequences in ${seconds} s, seed ${seed}: all match the model.\n`)
  return 0
})
