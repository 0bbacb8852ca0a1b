import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { createClient } from '../kit/http/client.ts'
import { startServiceProcess } from '../malformed/service-process.ts'
import { checkSequences } from './check.ts'

/** `npm run model`: plays sequences of writes against a service of its own, and compares each with the model. */
const usage = `Usage: npm run model -- [options]

Starts the whole service (svc up on embedded stores, in a temporary folder), plays random sequences of writes by up to 64
writers, fifty at once, and compares everything that can be read with a simple model. Ends with 1 and the smallest
sequence that it can find when one is not as the model says.

  --sequences N   how many (default 10000: some twenty minutes)
  --seed N        which ones (default: drawn, and told)
  --path P        only the one that was told with this path, and its seed
`

const progressEvery = 100
const apiKey = 'svc_model_0123456789abcdef'

const interrupted = 130

async function main() {
  const { values } = parseArgs({
    options: {
      sequences: { type: 'string', default: '10000' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
      path: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const [count, seed] = [Number(values.sequences), Number(values.seed)]
  if (!Number.isInteger(count) || count < 1) throw new Error('--sequences must be a whole number from 1.')
  if (!Number.isInteger(seed)) throw new Error('--seed must be a whole number.')

  const folder = await mkdtemp(path.join(tmpdir(), 'svc-model-'))
  const service = await startServiceProcess({
    SVC_DATA_DIR: folder,
    SVC_BOOTSTRAP_API_KEY: apiKey,
    SVC_LOG_LEVEL: 'warn',
  })
  try {
    const startedAt = performance.now()
    let played = 0
    const onPlayed = () => {
      if (++played % progressEvery === 0) process.stderr.write(`${played} played\n`)
    }
    const client = createClient(service.url, { apiKey, workspaceName: 'default' })
    await checkSequences({ client, count, seed, path: values.path, onPlayed })
    const seconds = Math.round((performance.now() - startedAt) / 1_000)
    process.stdout.write(`${played} sequences in ${seconds} s, seed ${seed}: all ended as the model says.\n`)
  } finally {
    await service.close()
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(interrupted))

try {
  await main()
} catch (error) {
  process.stderr.write(`model: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
