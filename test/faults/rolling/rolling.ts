import { parseArgs } from 'node:util'
import { describeTerminal } from '../../../cli/terminal/terminal.ts'
import { chooseQueue, readNumber, writeJson } from '../../kit/command-line/options.ts'
import { runTool } from '../../kit/command-line/run-tool.ts'
import { listDifferences } from '../verify/verification.ts'
import { renderRolling } from './report.ts'
import { chartPace, listRefusals, runRolling } from './run.ts'

/**
 * `npm run rolling`: replaces every process of every role under load and compares the stored rows with the acknowledged ones.
 * With `--from` it is an upgrade, a rollback of the application, and the upgrade again.
 */
const usage = `Usage: npm run rolling -- [options]

  --rounds N       how often each process is replaced (default 3)
  --from REVISION  begin with this version out of git, upgrade to the working tree, go back, and upgrade again
  --clients N      how many clients write (default 20)
  --seed N         which sequence of writes to draw (default: from the clock)
  --queue KIND     redis or postgres (default: redis when there is a redis-server on the PATH)
  --json FILE      also write the result there
`

function readOptions() {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '3' },
      from: { type: 'string' },
      clients: { type: 'string', default: '20' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      queue: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  return {
    ...values,
    rounds: readNumber('rounds', values.rounds, 1),
    clients: readNumber('clients', values.clients, 1),
    seed: readNumber('seed', values.seed, 0),
    queue: chooseQueue(values.queue),
  }
}

await runTool('rolling', async (tool) => {
  const { rounds, from, clients, seed, queue, json, help } = readOptions()
  if (help) {
    process.stdout.write(usage)
    return 0
  }
  const result = await runRolling({ rounds, from, clients, seed, queue, pace: chartPace, ...tool })
  await writeJson(json, result)
  process.stdout.write(renderRolling(result, describeTerminal(process.stdout, process.env)))
  const isWell = listRefusals(result).length + listDifferences(result.verified, []).length === 0
  return isWell ? 0 : 1
})
