import type { ClickHouse } from '../clickhouse/connection.ts'
import { checkClickHouse } from '../clickhouse/migrations/check.ts'
import { type ClickHouseState, readClickHouseState } from '../clickhouse/state.ts'
import { compareClock } from './clock.ts'
import { bytes, type Check, duration, type Finding, ok, orOk, percent, warning, wrong } from './finding.ts'

const versionMin = [25, 8] as const
const diskShareLow = 0.15
const diskShareLeast = 0.05
const partsShareMax = 0.5
const mergeSecondsMax = 6 * 3_600
const replicaDelaySecondsMax = 300

export function clickhouseChecks(name: string, clickhouse: ClickHouse): Check[] {
  return [
    {
      name,
      async run() {
        const askedMs = Date.now()
        const state = await readClickHouseState(clickhouse)
        const clock = compareClock('clock of ClickHouse', state.nowMs, askedMs, Date.now())
        await checkClickHouse(clickhouse)
        return [
          ...judgeServer(name, state),
          ...judgeDisks(state),
          ...judgeParts(state),
          ...judgeMutations(state),
          clock,
        ]
      },
    },
  ]
}

function judgeServer(name: string, { version, tables, replicas }: ClickHouseState): Finding[] {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const isOld = major < versionMin[0] || (major === versionMin[0] && minor < versionMin[1])
  const total = tables.reduce((sum, it) => sum + it.bytes, 0)
  return orOk(
    name,
    [
      isOld && wrong(name, `has version ${version}: svc needs ${versionMin.join('.')} or newer`),
      replicas.readOnly > 0 &&
        wrong(
          name,
          `has ${replicas.readOnly} read-only replicated tables: Keeper is down or has lost their metadata ` +
            '(SYSTEM RESTORE REPLICA)',
        ),
      replicas.delaySeconds > replicaDelaySecondsMax &&
        warning(
          name,
          `lags ${duration(replicas.delaySeconds)} behind the other replicas, with ${replicas.queued} tasks in ` +
            'system.replication_queue: see last_exception there',
        ),
    ],
    `${version}; ${bytes(total)} in ${tables.length} tables`,
  )
}

function judgeDisks({ disks }: ClickHouseState): Finding[] {
  return disks.map(({ disk, freeBytes, totalBytes }) => {
    const name = `ClickHouse disk ${disk}`
    const share = freeBytes / totalBytes
    const left = `${percent(share)} of ${bytes(totalBytes)} free`
    if (share < diskShareLeast) return wrong(name, `${left}: inserts are about to fail. Add disk space or delete data.`)
    if (share < diskShareLow)
      return warning(name, `${left}: large merges stop at about 10%. Add disk space or delete data.`)
    return ok(name, left)
  })
}

function judgeParts({ tables, partsSlowAt }: ClickHouseState): Finding[] {
  const name = 'ClickHouse parts'
  const many = tables.filter((it) => it.partsOfPartitionMax > partsSlowAt * partsShareMax)
  const most = Math.max(0, ...tables.map((it) => it.partsOfPartitionMax))
  return orOk(
    name,
    many.map((it) => {
      const message =
        `${it.table} has ${it.partsOfPartitionMax} in a partition; inserts are slowed down from ${partsSlowAt} on. Check ` +
        'that merges run (system.merges), keep up and have free disk space.'
      return it.partsOfPartitionMax > partsSlowAt ? wrong(name, message) : warning(name, message)
    }),
    `at most ${most} in a partition; inserts are slowed down from ${partsSlowAt} on`,
  )
}

function judgeMutations({ mutations, merges }: ClickHouseState): Finding[] {
  const name = 'ClickHouse mutations'
  return orOk(
    name,
    [
      mutations.failing > 0 &&
        warning(
          name,
          `${mutations.failing} keep failing (${mutations.failReason.slice(0, 200)}): fix the cause, or KILL MUTATION; ` +
            'see system.mutations',
        ),
      merges.oldestSeconds > mergeSecondsMax &&
        warning(
          name,
          `a merge has run for ${duration(merges.oldestSeconds)}: see system.merges, and check that the disk is not too slow`,
        ),
    ],
    `${mutations.waiting} wait; ${merges.running} merges run`,
  )
}
