/** The WAL positions of the primary and of a replica. Ask the primary first: both move on all the time. */
import type { Queries } from './database.ts'

/** Tells whether two servers are the same, or copies. */
type Identity = {
  systemId: string
  database: string
  /** Each promotion begins another timeline, in which the same LSN is another moment. */
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
 * A position that covers every commit answered so far. With `synchronous_commit = off`, commits are answered before they are
 * written, so it is the insert position in memory. The timeline comes from the name of the WAL file: the control file of a
 * promoted server names the old one until its first checkpoint.
 */
export async function readWalPosition(primary: Queries): Promise<WalPosition> {
  const row = await primary.row<WalPosition>(
    `SELECT ${identity}, lsn::text AS lsn, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::int AS timeline
     FROM (SELECT CASE WHEN current_setting('synchronous_commit') = 'off' THEN pg_current_wal_insert_lsn()
       ELSE pg_current_wal_lsn() END AS lsn) p`,
  )
  return row as WalPosition
}

/** Whether a server has replayed up to a position. Its timeline is that of its last restart point. */
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

/** What the server at POSTGRES_READ_URL is to the primary. */
export function compareServers(primary: Identity, other: Standing): 'replica' | 'primary' | 'foreign' | 'diverged' {
  if (other.systemId !== primary.systemId || other.database !== primary.database) return 'foreign'
  if (other.startedAt === primary.startedAt && !other.isInRecovery) return 'primary'
  // A copy that accepts writes, or one on a timeline that the primary has left.
  return other.isInRecovery && other.timeline === primary.timeline ? 'replica' : 'diverged'
}

/** Why a server can never be a replica of the primary. */
export const foreignServer =
  'is no replica of the one at POSTGRES_URL: it is of another system, or this is another database. Name a streaming ' +
  'replica of that server in POSTGRES_READ_URL, with the same database, or take the setting away.'
