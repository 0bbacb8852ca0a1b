import { setTimeout as sleep } from 'node:timers/promises'
import { describeError } from '../../runtime/describe-error.ts'
import type { Queries } from '../postgres/database.ts'
import { compareServers, foreignServer, readStanding, readWalPosition } from '../postgres/wal-position.ts'
import { bytes, type Check, type Finding, ok, warning, wrong } from './finding.ts'

/** A replica that lags more than this serves no reads. */
const behindMsMax = 2_000
const pollEveryMs = 20

/** Checks that the read replica follows this primary, and how far it lags. */
export function postgresReplicaCheck(name: string, primary: Queries, replica: Queries): Check {
  return { name, run: async () => [await compare(name, primary, replica)] }
}

async function compare(name: string, primary: Queries, replica: Queries): Promise<Finding> {
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
            ? 'is on another timeline than the primary, which answers every read meanwhile. After a failover run CHECKPOINT on ' +
                'it; if that does not help, it follows another server.'
            : 'takes writes, so it is no longer a replica; the primary answers every read. Set it up as a replica again.',
        )
      case 'primary':
        return ok(name, 'is the primary itself')
    }
    const behindMs = Math.round(performance.now() - askedMs)
    if (standing.isReached) return ok(name, behindMs < pollEveryMs ? 'up to date' : `${behindMs} ms behind`)
    if (standing.isPaused) {
      return warning(
        name,
        'has paused its replay: run pg_wal_replay_resume() on it. The primary answers every read meanwhile.',
      )
    }
    if (behindMs > behindMsMax) {
      return warning(
        name,
        `lags more than ${behindMsMax / 1_000} s, by ${bytes(standing.behindBytes)} of WAL; the primary answers every read ` +
          'meanwhile. Check that it receives WAL (pg_stat_wal_receiver), and that no long read delays its replay.',
      )
    }
    await sleep(pollEveryMs)
  }
}
