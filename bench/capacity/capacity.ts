import { parseArgs } from 'node:util'
import { runCommand } from '../command.ts'
import { readMeasuredCosts, readWrittenCosts } from './costs.ts'
import { assumptions, planCapacity } from './plan.ts'
import { describeCapacity } from './report.ts'

/**
 * `npm run capacity`: sizes a deployment for training clusters from the measurements of the bench. Without options it
 * prints `docs/capacity.md`.
 */
const usage = `Usage: npm run capacity -- [--gpus N[,N]] [--measured] [--json] [assumptions]

  --gpus N[,N]  sizes of the cluster; 100,1000,10000 by default
  --measured    by the newest runs in bench/results instead of the tables in bench/README.md
  --json        the plans, the costs and the assumptions, for scripts

Assumptions, with their defaults:
${Object.entries(assumptions)
  .map(([name, value]) => `  --${toOption(name)} ${value}`)
  .join('\n')}
`

const sizes = '100,1000,10000'

await runCommand(async () => {
  const numbers = Object.fromEntries(Object.keys(assumptions).map((it) => [toOption(it), { type: 'string' as const }]))
  const { values } = parseArgs({
    options: {
      gpus: { type: 'string', default: sizes },
      measured: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
      ...numbers,
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const given = values as Record<string, unknown>
  const assumed = { ...assumptions }
  for (const name of Object.keys(assumptions) as (keyof typeof assumptions)[]) {
    const text = given[toOption(name)]
    if (text !== undefined) assumed[name] = toNumber(`--${toOption(name)}`, String(text))
  }
  if (assumed.singleShare + assumed.rowsShare > 1)
    throw new Error('--single-share and --rows-share are more than 1 together.')
  const gpus = String(values.gpus)
    .split(',')
    .map((it) => toNumber('--gpus', it))
  const costs = values.measured ? await readMeasuredCosts() : await readWrittenCosts()
  const plans = gpus.map((it) => planCapacity(it, costs, assumed))
  if (values.json) process.stdout.write(`${JSON.stringify({ plans, costs, assumptions: assumed }, null, 2)}\n`)
  else process.stdout.write(describeCapacity(plans, costs, assumed, `npm run --silent capacity > docs/capacity.md`))
})

function toNumber(option: string, text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value) || value < 0)
    throw new Error(`${option} must be a number, not ${text}.`)
  if (value === 0 && option !== '--single-share' && option !== '--rows-share' && !option.startsWith('--price')) {
    throw new Error(`${option} must be more than 0.`)
  }
  return value
}

function toOption(name: string): string {
  return name.replace(/GiB/g, 'Gib').replace(/[A-Z]/g, (it) => `-${it.toLowerCase()}`)
}
