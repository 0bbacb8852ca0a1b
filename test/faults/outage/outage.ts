import { parseArgs } from 'node:util'
import { describeTerminal } from '../../../cli/terminal/terminal.ts'
import { chooseQueue, readNumber, writeJson } from '../../kit/command-line/options.ts'
import { runTool } from '../../kit/command-line/run-tool.ts'
import { NoSmallDisk } from '../../kit/stores/small-disk.ts'
import { type OutageName, outages } from '../cluster/outages.ts'
import { renderOutage } from './report.ts'
import { listOutageFaults, runOutage } from './run.ts'

/** `npm run outage`: stops a store under steady load, brings it back and measures the recovery. */
const usage = `Usage: npm run outage -- --store NAME [options]

  --minutes N     length of the outage (default 10)
  --rate N        points a second, all the time (default 10000)
  --batch N       points in a request (default 100)
  --queue KIND    redis or postgres (default: redis when there is a redis-server on the PATH)
  --json FILE     also write the result there, with a sample for every half second

SVC_* variables are passed on to the roles. Stores:
${Object.entries(outages)
  .map(([name, { about }]) => `  ${name.padEnd(14)}  ${about}`)
  .join('\n')}
`

const cannotBeDoneHere = 2

function readOptions() {
  const { values } = parseArgs({
    options: {
      store: { type: 'string' },
      minutes: { type: 'string', default: '10' },
      rate: { type: 'string', default: '10000' },
      batch: { type: 'string', default: '100' },
      queue: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return undefined
  const store = values.store as OutageName
  if (!Object.hasOwn(outages, store)) throw new Error(`--store must be one of ${Object.keys(outages).join(', ')}.`)
  const queue = chooseQueue(values.queue)
  if (outages[store].needsRedis && queue !== 'redis') throw new Error(`--store ${store} needs the queue in Redis.`)
  return {
    store,
    queue,
    minutes: readNumber('minutes', values.minutes, 0.01),
    rate: readNumber('rate', values.rate, 1),
    batch: Math.round(readNumber('batch', values.batch, 1)),
    json: values.json,
  }
}

/** SVC_* variables of our environment, except those the cluster sets itself. */
function readRoleSettings(): Record<string, string> {
  const ours = new Set(['SVC_HOST', 'SVC_PORT', 'SVC_QUEUE_PREFIX'])
  const given = Object.entries(process.env).filter(([name]) => name.startsWith('SVC_') && !ours.has(name))
  return Object.fromEntries(given) as Record<string, string>
}

await runTool('outage', async (tool) => {
  const options = readOptions()
  if (!options) {
    process.stdout.write(usage)
    return 0
  }
  try {
    const result = await runOutage({ ...options, settings: readRoleSettings(), ...tool })
    await writeJson(options.json, result)
    process.stdout.write(renderOutage(result, describeTerminal(process.stdout, process.env)))
    return listOutageFaults(result).length === 0 ? 0 : 1
  } catch (error) {
    if (!(error instanceof NoSmallDisk)) throw error
    tool.status.say(error.message)
    return cannotBeDoneHere
  }
})
