import { setTimeout as sleep } from 'node:timers/promises'
import { describeError } from '../../http/health.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { compareServers, foreignServer, readStanding, readWalPosition } from '../../store/postgres/wal-position.ts'
import { bytes, type Check, type Finding, ok, warning, wrong } from './finding.ts'

/** It has so long to come to where the primary was: longer, and no read ever finds it there. */
const behindMsMax = 2_000
const lookAgainMs = 20

/** The replica that reads go to: is it one of this primary, and how far behind is it? */
export function postgresReplicaCheck(name: string, primary: Queries, replica: Queries): Check {
  return { name, look: async () => [await lookAt(name, primary, replica)] }
}

async function lookAt(name: string, primary: Queries, replica: Queries): Promise<Finding> {
  const position = await readWalPosition(primary)
  const askedMs = performance.now()
  for (;;) {
    const standing = await readStanding(replica, position).catch(describeError)
    if (typeof standing === 'string') return warning(name, `${standing}: the primary answers every read meanwhile`)
    switch (compareServers(position, standing)) {
      case 'foreign':
        return wrong(name, foreignServer)
      case 'diverged':
        return warning(
          name,
          standing.isInRecovery
            ? 'is not on the timeline of the primary, which answers every read meanwhile: after a failover run CHECKPOINT on it; ' +
                'if that changes nothing, it follows another server'
            : 'takes writes of its own: it is no replica any more, and the primary answers every read. Make it one anew.',
        )
      case 'primary':
        return ok(name, 'is the primary itself')
    }
    const behindMs = Math.round(performance.now() - askedMs)
    if (standing.isReached) return ok(name, behindMs < lookAgainMs ? 'up to date' : `${behindMs} ms behind`)
    if (standing.isPaused) {
      return warning(
        name,
        'does not replay, it is paused: run pg_wal_replay_resume() on it. The primary answers its reads.',
      )
    }
    if (behindMs > behindMsMax) {
      return warning(
        name,
        `is more than ${behindMsMax / 1_000} s behind, by ${bytes(standing.behindBytes)} of WAL, and the primary answers its ` +
          'reads: does it receive WAL (pg_stat_wal_receiver), or does a long read on it hold up the replay?',
      )
    }
    await sleep(lookAgainMs)
  }
}
