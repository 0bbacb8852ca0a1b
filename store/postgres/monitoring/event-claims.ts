import { hash } from 'node:crypto'
import type { Queries } from '../database.ts'

/**
 * Who was first: of all events that ever come with one prediction id, of one model and kind, exactly one is stored, and it
 * is the one that was acknowledged. Any number of processes take part; any of them may be killed at any moment.
 *
 * 1. A round of events claims its ids: one statement gives the round a number (`claim`), notes it in `open_claims`, and
 *    puts a row into `event_claims` for every id that nobody has. (claim, place in the round) is then the number of the event.
 * 2. The events that won go to the queue, under that number.
 * 3. When the queue has them all, the round confirms its claim: its row in `open_claims` goes away. Only then is anybody
 *    told that an event was accepted.
 *
 * An id that was lost belongs to a claim. When that one is not in `open_claims` it is confirmed: the event is a
 * duplicate. While it is open, whoever lost waits for what becomes of it. When it has been open for longer than a lease
 * (its process was killed, or hangs), or was given up (the queue refused), the id is free to be taken over:
 *
 * 4. One statement marks the old claim as given up, which locks its row, so either its owner has confirmed it before (then
 *    nothing is taken) or never can again (then its owner answers 503, and its clients send again). It gives the id the
 *    number of a new claim, which goes on with step 2. The old number may be in the queue or not: it is put down in
 *    `untold_voids`, in the same statement, and whoever reads that next tells ClickHouse, where reads leave it out.
 *
 * A claim that was given up stays in `open_claims` for ever, for ids that nobody has sent again still belong to it. There
 * are as many of these as rounds that failed.
 */
export type ClaimedId = {
  modelId: bigint | number
  kind: number
  /** 128 bits of the SHA-256 of the prediction id, in hex. */
  idHash: string
}

/** What a prediction id is claimed by: its length does not matter, and an index of it is small. */
export function toIdHash(predictionId: string): string {
  return hash('sha256', predictionId, 'hex').slice(0, 32)
}

/** A claim, and the places in the list of those ids that it did not get. */
export type Claimed = { claim: bigint; lost: number[] }

/**
 * Claims ids for one round, each at its place in the list. No id may stand in the list twice.
 *
 * Ids are inserted in their order, so two rounds that want the same ones wait for each other and never both.
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
     SELECT claim, ARRAY(SELECT place::integer FROM wanted EXCEPT SELECT place FROM won) AS lost FROM number`,
    toArrays(ids),
  )
  return row as Claimed
}

/** Whose an id is. One whose model is gone has nobody. */
export type Holder = { claim: bigint; state: 'confirmed' | 'open' | 'free' }

/**
 * To whom ids belong that were lost, in their order; undefined for one that nobody has.
 *
 * @param leaseMs how long a claim may be open before its ids are free
 */
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
 * Takes ids over from claims that are free, for one new round. `lost` are the places of those that somebody else was quicker
 * to take, or whose claim was confirmed after all.
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
     SELECT claim, ARRAY(SELECT place::integer FROM wanted EXCEPT SELECT place FROM taken) AS lost FROM number`,
    [...toArrays(ids), leaseMs, `{${ids.map((it) => it.from).join()}}`],
  )
  return row as Claimed
}

/** Confirms claims whose events are all in the queue; those that somebody took ids from are not among the answer. */
export async function confirmClaims(queries: Queries, claims: readonly bigint[]): Promise<Set<bigint>> {
  const rows = await queries.rows<{ claim: bigint }>(
    'DELETE FROM open_claims WHERE claim = ANY($1::bigint[]) AND NOT is_given_up RETURNING claim',
    [`{${claims.join()}}`],
  )
  return new Set(rows.map((it) => it.claim))
}

/** Gives a claim up whose events are not, or not all, in the queue: its ids can be taken at once. */
export async function giveUpClaim(queries: Queries, claim: bigint): Promise<void> {
  await queries.row('UPDATE open_claims SET is_given_up = true WHERE claim = $1', [claim])
}

/** The number of an event that must not be read. */
export type Tombstone = { claim: bigint; place: number; modelId: bigint; kind: number }

/** Some numbers that ClickHouse has not been told of. */
export async function listUntoldTombstones(queries: Queries, limit: number): Promise<Tombstone[]> {
  return await queries.rows<Tombstone>(
    'SELECT claim, place, model_id AS "modelId", kind FROM untold_voids ORDER BY claim, place LIMIT $1',
    [limit],
  )
}

/** Forgets numbers that are in the queue to ClickHouse. */
export async function deleteUntoldTombstones(queries: Queries, tombstones: readonly Tombstone[]): Promise<void> {
  await queries.row(
    `DELETE FROM untold_voids v USING unnest($1::bigint[], $2::integer[]) AS told(claim, place)
     WHERE (v.claim, v.place) = (told.claim, told.place)`,
    [`{${tombstones.map((it) => it.claim).join()}}`, `{${tombstones.map((it) => it.place).join()}}`],
  )
}

/** The number under which an event of a prediction id is stored, if there is one. */
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

/** Arrays as Postgres writes them: none of these needs quotes, and the driver would quote each. */
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
