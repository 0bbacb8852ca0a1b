import { parseArgs } from 'node:util'
import { describeTerminal } from '../../../cli/terminal/terminal.ts'
import { chooseQueue, readNumber, writeJson } from '../../kit/command-line/options.ts'
import { runTool } from '../../kit/command-line/run-tool.ts'
import { listDifferences } from '../verify/verification.ts'
import { renderFaults } from './report.ts'
import { runFaults } from './run.ts'

/** `npm run faults`: kills every part of the service under load and compares the stored rows with the acknowledged ones. */
const usage = `Usage: npm run faults -- [options]

  --kills N          number of kills (default 200)
  --seed N           seed of the kills and writes (default: from the clock)
  --queue KIND       redis or postgres (default: redis when there is a redis-server on the PATH)
  --minutes-max N    stop killing after N minutes (default 40)
  --json FILE        also write the result there
`

function readOptions() {
  const { values } = parseArgs({
    options: {
      kills: { type: 'string', default: '200' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      queue: { type: 'string' },
      'minutes-max': { type: 'string', default: '40' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  return {
    ...values,
    kills: readNumber('kills', values.kills, 1),
    seed: readNumber('seed', values.seed, 0),
    queue: chooseQueue(values.queue),
    minutesMax: readNumber('minutes-max', values['minutes-max'], 0),
  }
}

await runTool('faults', async (tool) => {
  const { kills, seed, queue, minutesMax, json, help } = readOptions()
  if (help) {
    process.stdout.write(usage)
    return 0
  }
  const result = await runFaults({ kills, seed, queue, minutesMax, ...tool })
  await writeJson(json, result)
  process.stdout.write(renderFaults(result, describeTerminal(process.stdout, process.env)))
  return listDifferences(result.verified, result.answers.unexpected).length === 0 ? 0 : 1
})
