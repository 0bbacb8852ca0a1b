import { createHash } from 'node:crypto'
import type { Database, Queries } from '../database.ts'
import { type Act, insertAudit } from './audit.ts'

/**
 * The audit log of an organization is a chain: the hash of an entry covers its fields, its position and the hash of the entry
 * before. Postgres chains each entry when it is inserted (`migrations/0032_audit_chain.sql`). Whoever alters, removes, inserts
 * or moves an entry afterwards would have to write all later hashes anew, and then the chain no longer contains the hashes
 * of an earlier export.
 *
 * Entries expire from the beginning: the hash of the last one that expired is the anchor that the first remaining entry
 * follows. An entry `audit.expired` tells of it.
 */

/** An entry as it is exported. Its fields are the text that is hashed. */
export type ChainedEntry = {
  organizationId: string
  /** From 1, without gaps. */
  position: number
  /** ISO 8601, UTC, with microseconds. */
  at: string
  userName: string
  act: string
  subject: string
  /** JSON, as Postgres writes `jsonb`. */
  details: string
  /** Hexadecimal SHA-256. */
  previousHash: string
  hash: string
}

/** Where a chain begins and ends. Position and hash are those of the newest expired, and of the newest entry. */
type ChainEnds = { anchor: Place; head: Place }
type Place = { position: number; hash: string }

type ChainFault = { position: number; reason: string }

type CheckedChain = {
  entries: number
  /** Undefined without entries. */
  first: Place | undefined
  last: Place | undefined
  /** In the order of their positions; at most `faultsMax`. */
  faults: ChainFault[]
}

const noHash = '0'.repeat(64)
const faultsMax = 100
const pageSize = 5_000
/** Entries that one transaction deletes: writers of the organization wait meanwhile. */
const expiredAtOnce = 10_000

/** SHA-256 of the previous hash, followed by each field after its length in bytes. */
function toEntryHash(entry: Omit<ChainedEntry, 'hash'>): string {
  const { organizationId, position, at, userName, act, subject, details, previousHash } = entry
  const fields = [organizationId, String(position), at, userName, act, subject, details]
  return createHash('sha256')
    .update(previousHash, 'hex')
    .update(fields.map((it) => `${Buffer.byteLength(it)}:${it},`).join(''))
    .digest('hex')
}

/**
 * Checks that entries follow each other. Each fault is told once: after it the chain goes on from the hash that stands there.
 *
 * @param ends where Postgres says that the chain begins and ends; undefined for an exported part
 */
export async function checkChain(
  entries: AsyncIterable<ChainedEntry> | Iterable<ChainedEntry>,
  ends: ChainEnds | undefined,
): Promise<CheckedChain> {
  const faults: ChainFault[] = []
  const report = (position: number, reason: string) => {
    if (faults.length < faultsMax) faults.push({ position, reason })
  }
  let count = 0
  let first: Place | undefined
  let last: Place | undefined = ends?.anchor
  let isAnchorTold = ends === undefined || ends.anchor.position === 0
  for await (const entry of entries) {
    count++
    const { position, hash } = entry
    const isAfterGap = last !== undefined && position > last.position + 1
    if (last && isAfterGap) {
      const from = last.position + 1
      const what =
        from === position - 1 ? `the entry ${from} is missing` : `the entries ${from} to ${position - 1} are missing`
      report(from, what)
    } else if (last && position <= last.position) {
      report(position, `it stands after the entry ${last.position}`)
    } else if (last && entry.previousHash !== last.hash) {
      report(position, 'it does not follow the entry before it')
    }
    // What an entry after a gap followed is not there any more.
    if (!isAfterGap && toEntryHash(entry) !== hash) report(position, 'it was altered, or the entry before it was')
    if (ends && position > ends.head.position) report(position, `the log ends with the entry ${ends.head.position}`)
    if (ends && entry.act === 'audit.expired' && tellsOf(entry.details, ends.anchor)) isAnchorTold = true
    last = { position, hash }
    first ??= last
  }
  if (ends && (last?.position ?? 0) < ends.head.position) {
    report((last?.position ?? 0) + 1, `the log ended with the entry ${ends.head.position}`)
  } else if (ends && last?.position === ends.head.position && last.hash !== ends.head.hash) {
    report(last.position, 'the log ended with another entry at this position')
  }
  if (!isAnchorTold) report(ends?.anchor.position ?? 0, 'no entry tells that the entries up to this one have expired')
  return { entries: count, first, last: count > 0 ? last : undefined, faults }
}

function tellsOf(details: string, anchor: Place): boolean {
  const { position, hash } = JSON.parse(details) as Partial<Place>
  return position === anchor.position && hash === anchor.hash
}

type Row = Omit<ChainedEntry, 'position' | 'previousHash'> & { position: bigint }

/** Reads the chain of an organization in one snapshot, oldest entry first. */
export async function readChain<T>(
  database: Database,
  organizationId: string,
  read: (entries: AsyncIterable<ChainedEntry>, ends: ChainEnds) => Promise<T>,
): Promise<T> {
  return await database.transaction(async (queries) => {
    await queries.row('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY')
    const ends = await findEnds(queries, organizationId)
    return await read(listChained(queries, organizationId, ends.anchor), ends)
  })
}

async function findEnds(queries: Queries, organizationId: string): Promise<ChainEnds> {
  const row = await queries.row<{ position: bigint; hash: string; anchorPosition: bigint; anchorHash: string }>(
    `SELECT position, encode(hash, 'hex') AS hash, anchor_position AS "anchorPosition",
       encode(anchor_hash, 'hex') AS "anchorHash" FROM audit_chains WHERE organization_id = $1`,
    [organizationId],
  )
  if (!row) return { anchor: { position: 0, hash: noHash }, head: { position: 0, hash: noHash } }
  return {
    anchor: { position: Number(row.anchorPosition), hash: row.anchorHash },
    head: { position: Number(row.position), hash: row.hash },
  }
}

/** The stored hash of the entry before is what an entry follows; of the first one it is the anchor. */
async function* listChained(queries: Queries, organizationId: string, anchor: Place): AsyncGenerator<ChainedEntry> {
  let previousHash = anchor.hash
  for (let after = -1n; ; ) {
    const rows = await queries.rows<Row>(
      `SELECT organization_id AS "organizationId", position,
         to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at, actor AS "userName", act, subject,
         details::text AS details, encode(hash, 'hex') AS hash
       FROM audit_log WHERE organization_id = $1 AND position > $2 ORDER BY position LIMIT ${pageSize}`,
      [organizationId, after],
    )
    for (const { position, hash, ...row } of rows) {
      yield { ...row, position: Number(position), previousHash, hash }
      previousHash = hash
    }
    if (rows.length < pageSize) return
    after = (rows.at(-1) as Row).position
  }
}

/**
 * Deletes the entries that are older than a time (ms since the Unix epoch), from the beginning of each chain, and writes down
 * where it begins now. Returns how many were deleted.
 */
export async function expireAudit(database: Database, beforeMs: number): Promise<number> {
  const due = await database.rows<{ organizationId: string }>(
    // Entries that only tell of others that have expired would follow each other for ever.
    `SELECT c.organization_id AS "organizationId" FROM audit_chains c WHERE EXISTS (
       SELECT 1 FROM audit_log l WHERE l.organization_id = c.organization_id
         AND l.at < to_timestamp($1::float8 / 1000) AND l.act <> 'audit.expired')`,
    [beforeMs],
  )
  let deleted = 0
  for (const { organizationId } of due) {
    for (;;) {
      const expired = await database.transaction((queries) => expirePart(queries, organizationId, beforeMs))
      deleted += expired
      if (expired < expiredAtOnce) break
    }
  }
  return deleted
}

async function expirePart(queries: Queries, organizationId: string, beforeMs: number): Promise<number> {
  const anchor = await queries.row<{ position: bigint }>(
    'SELECT anchor_position AS position FROM audit_chains WHERE organization_id = $1 FOR UPDATE',
    [organizationId],
  )
  if (!anchor) return 0
  // Up to the first entry that is young enough: an anchor has no gaps.
  const last = await queries.row<{ position: bigint; hash: Buffer }>(
    `SELECT position, hash FROM (
       SELECT position, hash, bool_and(at < to_timestamp($2::float8 / 1000)) OVER (ORDER BY position) AS "isOld"
       FROM (SELECT position, hash, at FROM audit_log WHERE organization_id = $1 ORDER BY position LIMIT ${expiredAtOnce}) part
     ) aged WHERE "isOld" ORDER BY position DESC LIMIT 1`,
    [organizationId, beforeMs],
  )
  if (!last) return 0
  const rows = await queries.rows('DELETE FROM audit_log WHERE organization_id = $1 AND position <= $2 RETURNING 1', [
    organizationId,
    last.position,
  ])
  await queries.row('UPDATE audit_chains SET anchor_position = $2, anchor_hash = $3 WHERE organization_id = $1', [
    organizationId,
    last.position,
    last.hash,
  ])
  const told = { position: Number(last.position), hash: last.hash.toString('hex'), entries: rows.length }
  await insertAudit(queries, { organizationId, userName: 'svc' }, 'audit.expired' satisfies Act, 'audit log', told)
  return rows.length
}
