import { hash } from 'node:crypto'
import type { Queries } from '../database.ts'

/**
 * Deduplicates events by prediction id. Of all events with one prediction id, of one model and kind, exactly one is stored:
 * the one that was acknowledged. This holds for any number of processes, and when any of them is killed at any moment.
 *
 * 1. A batch of events claims its ids. One statement numbers the batch (`claim`), adds it to `open_claims`, and inserts a
 *    row into `event_claims` for every id that is free. (claim, index in the batch) identifies the event from then on.
 * 2. The events that won their ids go to the queue under that number.
 * 3. When the queue has all of them, the claim is confirmed: its row in `open_claims` is deleted. Only then are its events
 *    acknowledged.
 *
 * An id that was lost belongs to an older claim. If that claim is not in `open_claims`, it is confirmed and the event is a
 * duplicate. While it is open, the loser waits for its outcome. A claim that was open for longer than a lease (its process
 * was killed, or hangs), or that was given up (the queue refused), can be taken over:
 *
 * 4. One statement marks the old claim as given up and gives the id to a new claim, which continues with step 2. Marking
 *    locks the row of the old claim. So either its owner has confirmed it before, and nothing is taken over, or its owner
 *    can no longer confirm it, answers 503, and the client retries. The event of the old claim may be in the queue or not,
 *    so the same statement adds its number to `untold_voids`. The next reader of that table sends it to ClickHouse as a
 *    tombstone, and reads leave the event out.
 *
 * A claim that was given up stays in `open_claims` for ever, because ids that were not sent again still belong to it. There
 * are as many of these as batches that failed.
 */
export type ClaimedId = {
  modelId: bigint | number
  kind: number
  /** 128 bits of the SHA-256 of the prediction id, in hex. */
  idHash: string
}

/** The key that a prediction id is claimed by: of fixed length, so its index is small. */
export function toIdHash(predictionId: string): string {
  return hash('sha256', predictionId, 'hex').slice(0, 32)
}

/** A claim, the indexes of the ids that it did not get, and whether the values of its events may be stored as chunks. */
export type Claimed = { claim: bigint; lost: number[]; takesChunks: boolean }

const takesChunks = 'now() >= (SELECT since FROM value_chunks) AS "takesChunks"'

/**
 * Claims ids for one batch; each is numbered by its index in the list. The list must not hold an id twice.
 *
 * Ids are inserted in sorted order, so two batches that claim the same ids wait for each other and do not deadlock.
 */
export async function claimEvents(queries: Queries, ids: readonly ClaimedId[]): Promise<Claimed> {
  const row = await queries.row<Claimed>(
    `WITH number AS (INSERT INTO open_claims DEFAULT VALUES RETURNING claim),
       wanted AS (SELECT model_id, kind, id_hash, place - 1 AS place
         FROM unnest($1::bigint[], $2::smallint[], $3::uuid[]) WITH ORDINALITY AS w(model_id, kind, id_hash, place)),
       won AS (INSERT INTO event_claims (model_id, kind, id_hash, claim, place)
         SELECT w.model_id, w.kind, w.id_hash, n.claim, w.place FROM wanted w
         JOIN monitored_models m ON m.id = w.model_id CROSS JOIN number n ORDER BY 1, 2, 3
         ON CONFLICT DO NOTHING RETURNING place)
     SELECT claim, ARRAY(SELECT place::integer FROM wanted EXCEPT SELECT place FROM won) AS lost,
       ${takesChunks} FROM number`,
    toArrays(ids),
  )
  return row as Claimed
}

/** The claim that holds an id. An id of a deleted model has none. */
export type Holder = { claim: bigint; state: 'confirmed' | 'open' | 'free' }

/** The holders of lost ids, in their order; undefined for an id that no claim holds. */
export async function findHolders(
  queries: Queries,
  ids: readonly ClaimedId[],
  leaseMs: number,
): Promise<(Holder | undefined)[]> {
  const rows = await queries.rows<Holder & { at: bigint }>(
    `SELECT w.at - 1 AS at, c.claim, CASE WHEN o.claim IS NULL THEN 'confirmed'
         WHEN ${isFree('o', '$4')} THEN 'free' ELSE 'open' END AS state
     FROM unnest($1::bigint[], $2::smallint[], $3::uuid[]) WITH ORDINALITY AS w(model_id, kind, id_hash, at)
     JOIN event_claims c ON (c.model_id, c.kind, c.id_hash) = (w.model_id, w.kind, w.id_hash)
     LEFT JOIN open_claims o ON o.claim = c.claim`,
    [...toArrays(ids), leaseMs],
  )
  const holders: (Holder | undefined)[] = ids.map(() => undefined)
  for (const { at, claim, state } of rows) holders[Number(at)] = { claim, state }
  return holders
}

const isFree = (claim: string, leaseMs: string) =>
  `(${claim}.is_given_up OR ${claim}.opened_at < clock_timestamp() - ${leaseMs} * interval '1 millisecond')`

/**
 * Takes ids over from free claims, for one new batch. `lost` are the indexes of the ids that another batch took first, or
 * whose claim was confirmed after all.
 */
export async function takeOverEvents(
  queries: Queries,
  ids: readonly (ClaimedId & { from: bigint })[],
  leaseMs: number,
): Promise<Claimed> {
  const row = await queries.row<Claimed>(
    `WITH number AS (INSERT INTO open_claims DEFAULT VALUES RETURNING claim),
       wanted AS (SELECT model_id, kind, id_hash, old, place - 1 AS place
         FROM unnest($1::bigint[], $2::smallint[], $3::uuid[], $5::bigint[])
           WITH ORDINALITY AS w(model_id, kind, id_hash, old, place)),
       given_up AS (UPDATE open_claims o SET is_given_up = true
         WHERE o.claim IN (SELECT old FROM wanted) AND ${isFree('o', '$4')} RETURNING o.claim),
       held AS (SELECT c.model_id, c.kind, c.id_hash, c.claim, c.place AS old_place, w.place
         FROM wanted w JOIN given_up g ON g.claim = w.old
         JOIN event_claims c ON (c.model_id, c.kind, c.id_hash, c.claim) = (w.model_id, w.kind, w.id_hash, w.old)
         FOR UPDATE OF c),
       taken AS (UPDATE event_claims c SET claim = n.claim, place = h.place FROM held h CROSS JOIN number n
         WHERE (c.model_id, c.kind, c.id_hash, c.claim) = (h.model_id, h.kind, h.id_hash, h.claim)
         RETURNING h.claim AS old, h.old_place, c.model_id, c.kind, c.place),
       voided AS (INSERT INTO untold_voids (claim, place, model_id, kind) SELECT old, old_place, model_id, kind FROM taken)
     SELECT claim, ARRAY(SELECT place::integer FROM wanted EXCEPT SELECT place FROM taken) AS lost,
       ${takesChunks} FROM number`,
    [...toArrays(ids), leaseMs, `{${ids.map((it) => it.from).join()}}`],
  )
  return row as Claimed
}

/**
 * Confirms claims whose events are all in the queue. Returns those that were confirmed: none that another claim took ids
 * from.
 */
export async function confirmClaims(queries: Queries, claims: readonly bigint[]): Promise<Set<bigint>> {
  const rows = await queries.rows<{ claim: bigint }>(
    'DELETE FROM open_claims WHERE claim = ANY($1::bigint[]) AND NOT is_given_up RETURNING claim',
    [`{${claims.join()}}`],
  )
  return new Set(rows.map((it) => it.claim))
}

/** Gives up a claim whose events are not all in the queue: its ids can be taken over at once. */
export async function giveUpClaim(queries: Queries, claim: bigint): Promise<void> {
  await queries.row('UPDATE open_claims SET is_given_up = true WHERE claim = $1', [claim])
}

/** The number of an event that reads leave out. */
export type Tombstone = { claim: bigint; place: number; modelId: bigint; kind: number }

/** Tombstones that are not yet in the queue to ClickHouse. */
export async function listUnsentTombstones(queries: Queries, limit: number): Promise<Tombstone[]> {
  return await queries.rows<Tombstone>(
    'SELECT claim, place, model_id AS "modelId", kind FROM untold_voids ORDER BY claim, place LIMIT $1',
    [limit],
  )
}

/** Deletes tombstones that are in the queue to ClickHouse. */
export async function deleteUnsentTombstones(queries: Queries, tombstones: readonly Tombstone[]): Promise<void> {
  await queries.row(
    `DELETE FROM untold_voids v USING unnest($1::bigint[], $2::integer[]) AS told(claim, place)
     WHERE (v.claim, v.place) = (told.claim, told.place)`,
    [`{${tombstones.map((it) => it.claim).join()}}`, `{${tombstones.map((it) => it.place).join()}}`],
  )
}

/** The number of the stored event of a prediction id; undefined if there is none. */
export async function findEventNumber(
  queries: Queries,
  { modelId, kind, idHash }: ClaimedId,
): Promise<{ claim: bigint; place: number } | undefined> {
  return await queries.row('SELECT claim, place FROM event_claims WHERE (model_id, kind, id_hash) = ($1, $2, $3)', [
    modelId,
    kind,
    idHash,
  ])
}

/** Array literals for Postgres, without the quotes that the driver would add: none of these values needs them. */
function toArrays(ids: readonly ClaimedId[]): string[] {
  const models: (bigint | number)[] = []
  const kinds: number[] = []
  const hashes: string[] = []
  for (const { modelId, kind, idHash } of ids) {
    models.push(modelId)
    kinds.push(kind)
    hashes.push(idHash)
  }
  return [`{${models.join()}}`, `{${kinds.join()}}`, `{${hashes.join()}}`]
}
