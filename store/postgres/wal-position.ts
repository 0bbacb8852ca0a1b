/**
 * How far a replica is, compared with the primary. All of it is told by the servers themselves at the moment they are
 * asked; whoever compares must ask the primary first.
 */
import type { Queries } from './database.ts'

/** What makes a server the same as another, or a copy of it. */
type Identity = {
  systemId: string
  database: string
  /** The history the WAL belongs to: each promotion begins another one, in which the same position is another moment. */
  timeline: number
  startedAt: string
}

export type WalPosition = Identity & { lsn: string }

export type Standing = Identity & {
  isInRecovery: boolean
  isReached: boolean
  isPaused: boolean
  behindBytes: number
}

const identity = `(SELECT system_identifier::text FROM pg_control_system()) AS "systemId", current_database() AS database,
  extract(epoch FROM pg_postmaster_start_time())::text AS "startedAt"`

/**
 * Up to where the primary has written: all that was committed before is in it. A commit that does not wait for the disk is
 * answered before it is written, so then the position is that of what is still in memory. The timeline comes from the name
 * of the WAL file, for the control file of a promoted server goes on naming the old one until its first checkpoint.
 */
export async function readWalPosition(primary: Queries): Promise<WalPosition> {
  const row = await primary.row<WalPosition>(
    `SELECT ${identity}, lsn::text AS lsn, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::int AS timeline
     FROM (SELECT CASE WHEN current_setting('synchronous_commit') = 'off' THEN pg_current_wal_insert_lsn()
       ELSE pg_current_wal_lsn() END AS lsn) p`,
  )
  return row as WalPosition
}

/** Where a server stands that should have replayed up to a position. Its timeline is that of its last restart point. */
export async function readStanding(replica: Queries, position: WalPosition): Promise<Standing> {
  const row = await replica.row<Standing>(
    `SELECT ${identity}, r.*, (SELECT timeline_id FROM pg_control_checkpoint()) AS timeline,
       coalesce(replayed >= $1::pg_lsn, false) AS "isReached",
       greatest(0, coalesce(pg_wal_lsn_diff($1::pg_lsn, replayed), 0))::float8 AS "behindBytes",
       CASE WHEN "isInRecovery" THEN pg_is_wal_replay_paused() ELSE false END AS "isPaused"
     FROM (SELECT pg_is_in_recovery() AS "isInRecovery", pg_last_wal_replay_lsn() AS replayed) r`,
    [position.lsn],
  )
  return row as Standing
}

/** What a server is that was named as a replica of the primary. */
export function compareServers(primary: Identity, other: Standing): 'replica' | 'primary' | 'foreign' | 'diverged' {
  if (other.systemId !== primary.systemId || other.database !== primary.database) return 'foreign'
  if (other.startedAt === primary.startedAt && !other.isInRecovery) return 'primary'
  // A copy that takes writes of its own, or one that still follows a history which the primary has left.
  return other.isInRecovery && other.timeline === primary.timeline ? 'replica' : 'diverged'
}

/** Why a server cannot be read in place of the primary, whatever it does. */
export const foreignServer =
  'is no replica of the one at POSTGRES_URL: it is of another system, or this is another database. Name a streaming ' +
  'replica of that server in POSTGRES_READ_URL, with the same database, or take the setting away.'
