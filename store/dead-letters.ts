import zlib from 'node:zlib'
import type { ClickHouse } from './clickhouse/connection.ts'
import { type Actor, administer } from './postgres/accounts/audit.ts'
import type { Database, Queries } from './postgres/database.ts'
import { type DeadLetter, takeDeadLetter } from './postgres/dead-letters.ts'
import type { QueueBackend } from './queue/queue.ts'
import { type QueueName, queueNames } from './queue/queues.ts'

/** Rows that ClickHouse refused for good: what they hold, and how they are put into the queue again or discarded. */
type Deps = { database: Database; backend: QueueBackend }

/** The dead letter is for a queue that this version does not have. */
export class UnknownQueue extends Error {
  constructor({ id, queue }: DeadLetter) {
    super(`Dead letter ${id} is for the queue ${queue}, which this version does not have.`)
  }
}

/**
 * Queues the rows again, and deletes the dead letter. A crash in between repeats rows; reads merge repeated rows.
 *
 * @param actor for the audit log; undefined when there is no organization whose log it could be
 * @returns undefined when there is no such dead letter
 * @throws UnknownQueue
 */
export async function replayDeadLetter({ database, backend }: Deps, actor: Actor | undefined, id: bigint) {
  return await take(database, actor, id, 'dead-letter.replayed', async (letter) => {
    const name = letter.queue as QueueName
    if (!queueNames.includes(name)) throw new UnknownQueue(letter)
    const producer = await backend.openProducer(name)
    await producer.add({ rows: letter.rows, bytes: letter.bytes, receivedMs: Number(letter.receivedMs) })
  })
}

/** Deletes a dead letter, and its rows for good; undefined when there is none of this id. */
export async function discardDeadLetter({ database }: Pick<Deps, 'database'>, actor: Actor | undefined, id: bigint) {
  return await take(database, actor, id, 'dead-letter.discarded', async () => undefined)
}

type Act = 'dead-letter.replayed' | 'dead-letter.discarded'

/** In one transaction: the letter stays when `work` fails. */
async function take(
  database: Database,
  actor: Actor | undefined,
  id: bigint,
  act: Act,
  work: (letter: DeadLetter & { bytes: Buffer }) => Promise<unknown>,
): Promise<DeadLetter | undefined> {
  const inTransaction = async (queries: Queries) => {
    const letter = await takeDeadLetter(queries, id)
    if (letter) await work(letter)
    return letter
  }
  if (!actor) return await database.transaction(inTransaction)
  return await administer(database, actor, async (queries, note) => {
    const letter = await inTransaction(queries)
    if (letter) await note(act, String(id), { queue: letter.queue, rows: letter.rows })
    return letter
  })
}

/** The rows of a dead letter, which ClickHouse decodes without storing them; undefined when the block is damaged. */
export async function readDeadRows(clickhouse: ClickHouse, bytes: Buffer): Promise<unknown[] | undefined> {
  const block = unpackBlock(bytes)
  return block && (await clickhouse.readBlock(block).catch(() => undefined))
}

/** The block without its compression; undefined when it is damaged. */
export function unpackBlock(bytes: Buffer): Buffer | undefined {
  try {
    return zlib.zstdDecompressSync(bytes)
  } catch {
    // The reason of the dead letter says more than this error.
    return undefined
  }
}
