import type { QueueBackend } from '../../store/queue/queue.ts'
import { queueNames } from '../../store/queue/queues.ts'
import { type RedisState, readRedisStates } from '../../store/redis/state.ts'
import { compareClock } from './clock.ts'
import { bytes, type Check, duration, type Finding, orOk, percent, warning, wrong } from './finding.ts'

const versionMin = 7
/** At three quarters writes are refused. */
const memoryShareMax = 0.75
const memoryShareHigh = 0.6
const depthShareHigh = 0.25
const lagSecondsHigh = 60
const lagSecondsMax = 900

export function redisCheck(name: string, url: string, backend: QueueBackend): Check {
  return { name, look: () => lookAtRedis(name, url, backend) }
}

async function lookAtRedis(name: string, url: string, backend: QueueBackend): Promise<Finding[]> {
  const askedMs = Date.now()
  const states = await readRedisStates(url)
  const answeredMs = Date.now()
  await backend.check()
  const weakness = await backend.findWeakness()
  // Of a cluster each master is named.
  return states.flatMap((state) => {
    const its = states.length === 1 ? '' : ` ${state.address}`
    const clock = compareClock(`clock of Redis${its}`, state.nowMs, askedMs, answeredMs)
    return [...lookAtServer(states.length === 1 ? name : `Redis${its}`, state, weakness), clock]
  })
}

function lookAtServer(name: string, state: RedisState, weakness: string | undefined): Finding[] {
  const usable = state.maxBytes || state.systemBytes
  const share = usable > 0 ? state.usedBytes / usable : 0
  const used = `${bytes(state.usedBytes)} of ${bytes(usable)} used (${percent(share)})`
  return orOk(
    name,
    [
      Number.parseInt(state.version, 10) < versionMin &&
        wrong(name, `is of version ${state.version}: svc needs ${versionMin} or newer`),
      !state.isMaster && wrong(name, 'takes no writes, it is a replica: name the master in REDIS_URL'),
      weakness !== undefined && wrong(name, weakness),
      state.lastWriteFailed &&
        wrong(name, 'could not write its append-only file the last time: its disk is full or broken'),
      state.lastRewriteFailed &&
        warning(
          name,
          'could not rewrite its append-only file the last time: is there room on its disk for a second one?',
        ),
      share > memoryShareMax && wrong(name, `${used}: writes are refused. Store what waits, or raise maxmemory.`),
      share > memoryShareHigh &&
        share <= memoryShareMax &&
        warning(name, `${used}: at ${percent(memoryShareMax)} writes are refused. Raise maxmemory, or add workers.`),
      state.maxBytes === 0 &&
        warning(name, 'has no maxmemory: it may use up the memory of its machine and be killed. Set one.'),
    ],
    `${state.version}; ${used}; keeps what it is given`,
  )
}

/** What waits in each queue, and since when. */
export function queueCheck(backend: QueueBackend, queueMax: { blocks: number }): Check {
  return {
    name: 'queue',
    async look() {
      const queues = await Promise.all(
        queueNames.map(async (name) => {
          const producer = await backend.openProducer(name)
          const [{ blocks }, oldestMs] = await Promise.all([producer.load(), producer.oldestReceivedMs()])
          return { name, blocks, seconds: oldestMs === undefined ? 0 : Math.max(0, (Date.now() - oldestMs) / 1_000) }
        }),
      )
      const faults = queues.flatMap(({ name, blocks, seconds }) => {
        const its = `queue ${name}`
        const late = `${blocks} blocks, the oldest not stored for ${duration(seconds)}`
        const then = 'do workers run, and is ClickHouse there? See docs/runbooks.md#svclaghigh'
        if (seconds > lagSecondsMax) return [wrong(its, `${late}: ${then}`)]
        if (seconds > lagSecondsHigh) return [warning(its, `${late}: ${then}`)]
        if (blocks <= queueMax.blocks * depthShareHigh) return []
        const depth = `${blocks} of ${queueMax.blocks} blocks that it may hold`
        return [warning(its, `${depth}: workers cannot keep up. See docs/runbooks.md#svcqueuedeep`)]
      })
      const blocks = queues.reduce((sum, it) => sum + it.blocks, 0)
      const seconds = Math.max(...queues.map((it) => it.seconds))
      return orOk('queue', faults, blocks === 0 ? 'empty' : `${blocks} blocks, the oldest for ${duration(seconds)}`)
    },
  }
}
