import type { QueueBackend } from '../queue/queue.ts'
import { queueNames } from '../queue/queues.ts'
import { type RedisState, readRedisStates } from '../redis/state.ts'
import { compareClock } from './clock.ts'
import { bytes, type Check, duration, type Finding, orOk, percent, warning, wrong } from './finding.ts'

const versionMin = 7
/** Above this, writes are refused. */
const memoryShareMax = 0.75
const memoryShareHigh = 0.6
const depthShareHigh = 0.25
const lagSecondsHigh = 60
const lagSecondsMax = 900

export function redisCheck(name: string, url: string, backend: QueueBackend): Check {
  return { name, run: () => checkRedis(name, url, backend) }
}

async function checkRedis(name: string, url: string, backend: QueueBackend): Promise<Finding[]> {
  const askedMs = Date.now()
  const states = await readRedisStates(url)
  const answeredMs = Date.now()
  await backend.check()
  const weakness = await backend.findWeakness()
  // In a cluster each master is a finding of its own.
  return states.flatMap((state) => {
    const suffix = states.length === 1 ? '' : ` ${state.address}`
    const clock = compareClock(`clock of Redis${suffix}`, state.nowMs, askedMs, answeredMs)
    return [...judgeServer(states.length === 1 ? name : `Redis${suffix}`, state, weakness), clock]
  })
}

function judgeServer(name: string, state: RedisState, weakness: string | undefined): Finding[] {
  const usable = state.maxBytes || state.systemBytes
  const share = usable > 0 ? state.usedBytes / usable : 0
  const used = `${bytes(state.usedBytes)} of ${bytes(usable)} used (${percent(share)})`
  return orOk(
    name,
    [
      Number.parseInt(state.version, 10) < versionMin &&
        wrong(name, `has version ${state.version}: svc needs ${versionMin} or newer`),
      !state.isMaster && wrong(name, 'is a replica and takes no writes: set REDIS_URL to the master'),
      weakness !== undefined && wrong(name, weakness),
      state.lastWriteFailed && wrong(name, 'failed to write its append-only file: its disk is full or broken'),
      state.lastRewriteFailed &&
        warning(name, 'failed to rewrite its append-only file: check that its disk has room for a second one'),
      share > memoryShareMax &&
        wrong(name, `${used}: writes are refused. Let workers empty the queue, or raise maxmemory.`),
      share > memoryShareHigh &&
        share <= memoryShareMax &&
        warning(name, `${used}: at ${percent(memoryShareMax)} writes are refused. Raise maxmemory, or add workers.`),
      state.maxBytes === 0 &&
        warning(name, 'has no maxmemory: it may use all memory of its machine and be killed. Set one.'),
    ],
    `${state.version}; ${used}; durable`,
  )
}

/** Checks the depth of each queue and the age of its oldest block. */
export function queueCheck(backend: QueueBackend, queueMax: { blocks: number }): Check {
  return {
    name: 'queue',
    async run() {
      const queues = await Promise.all(
        queueNames.map(async (name) => {
          const producer = await backend.openProducer(name)
          const [{ blocks }, oldestMs] = await Promise.all([producer.load(), producer.oldestReceivedMs()])
          return { name, blocks, seconds: oldestMs === undefined ? 0 : Math.max(0, (Date.now() - oldestMs) / 1_000) }
        }),
      )
      const problems = queues.flatMap(({ name, blocks, seconds }) => {
        const finding = `queue ${name}`
        const late = `${blocks} blocks, the oldest has waited ${duration(seconds)}`
        const advice = 'check that workers and ClickHouse run. See docs/runbooks.md#svclaghigh'
        if (seconds > lagSecondsMax) return [wrong(finding, `${late}: ${advice}`)]
        if (seconds > lagSecondsHigh) return [warning(finding, `${late}: ${advice}`)]
        if (blocks <= queueMax.blocks * depthShareHigh) return []
        const depth = `${blocks} of at most ${queueMax.blocks} blocks`
        return [warning(finding, `${depth}: workers cannot keep up. See docs/runbooks.md#svcqueuedeep`)]
      })
      const blocks = queues.reduce((sum, it) => sum + it.blocks, 0)
      const seconds = Math.max(...queues.map((it) => it.seconds))
      return orOk(
        'queue',
        problems,
        blocks === 0 ? 'empty' : `${blocks} blocks, the oldest has waited ${duration(seconds)}`,
      )
    },
  }
}
