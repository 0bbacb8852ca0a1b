import { z } from 'zod'
import { list, object, pageFields } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import {
  discardDeadLetter,
  readDeadRows,
  replayDeadLetter,
  UnknownQueue,
  unpackBlock,
} from '../../store/dead-letters.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  countDeadLetters,
  type DeadLetter,
  findDeadLetter,
  listDeadLetters,
} from '../../store/postgres/dead-letters.ts'
import type { QueueBackend } from '../../store/queue/queue.ts'

const topic = 'Operations'

const pageSizeMax = 1_000
const pageSizeDefault = 100
const idsMax = 100
const rowsShownMax = 100
/** A value of a row may be a whole line of output. */
const textCharactersMax = 1_000
const firstBytesShown = 256

const deadLetterId = z.string('expected a string').regex(/^\d{1,18}$/, 'expected the deadLetterId of a dead letter')
const timeMs = z.int().describe('ms since the Unix epoch')

const letterAnswer = z.object({
  deadLetterId: z.string(),
  queue: z.string().describe('the data type'),
  rows: z.int(),
  receivedAt: timeMs.describe('when its first row was accepted; ms since the Unix epoch'),
  setAsideAt: timeMs,
  reason: z.string().describe('the error of ClickHouse'),
})

type Deps = { database: Database; clickhouse: ClickHouse; backend: QueueBackend }

/** Rows that ClickHouse refused for good. */
export function createDeadLetterRoutes({ database, clickhouse, backend }: Deps): Route[] {
  /** Each in a transaction of its own: those before a failure stay done. */
  async function forEach(ids: string[], act: (id: bigint) => Promise<DeadLetter | undefined>) {
    const done: string[] = []
    const missing: string[] = []
    // The oldest first, as they were accepted.
    const sorted = [...new Set(ids.map(BigInt))].sort((a, b) => (a < b ? -1 : 1))
    for (const id of sorted) ((await act(id)) ? done : missing).push(String(id))
    return { done, missing }
  }

  return [
    route({
      method: 'GET',
      path: '/admin/dead-letters',
      permission: 'operator',
      topic,
      summary:
        'Lists the dead letters, newest first: rows that ClickHouse refused for good. `nextPage` is the `page` to request ' +
        'next, or null.',
      query: object(pageFields(pageSizeMax)),
      answer: z.object({
        deadLetters: z.array(letterAnswer),
        total: z.int(),
        totalRows: z.int(),
        nextPage: z.string().nullable(),
      }),
      shape: 'plain',
      async handle({ query: { page, pageSize = pageSizeDefault } }) {
        const { letters, rows } = await countDeadLetters(database)
        const found = await listDeadLetters(database, pageSize + 1, page === undefined ? undefined : BigInt(page))
        const shown = found.slice(0, pageSize)
        const last = shown.at(-1)
        return {
          deadLetters: shown.map(toAnswer),
          total: letters,
          totalRows: rows,
          nextPage: found.length > pageSize && last ? String(last.id) : null,
        }
      },
    }),

    route({
      method: 'GET',
      path: '/admin/dead-letters/{deadLetterId}',
      permission: 'operator',
      topic,
      summary: `Reads a dead letter: its error, its first ${rowsShownMax} rows and its first ${firstBytesShown} bytes.`,
      params: object({ deadLetterId }),
      answer: letterAnswer.extend({
        bytes: z.int().describe('of the block as it is stored, compressed'),
        content: z
          .array(z.record(z.string(), z.unknown()).meta({ type: 'object' }))
          .nullable()
          .describe(
            `the first rows, long texts cut at ${textCharactersMax} characters; null when the block is damaged`,
          ),
        firstBytes: z
          .string()
          .describe('in hex: of the decompressed block, or of the compressed one if that is damaged'),
      }),
      shape: 'plain',
      async handle({ params }) {
        const letter = await findDeadLetter(database, BigInt(params.deadLetterId))
        if (!letter) throw unknownLetter(params.deadLetterId)
        const rows = await readDeadRows(clickhouse, letter.bytes)
        const block = unpackBlock(letter.bytes) ?? letter.bytes
        return {
          ...toAnswer(letter),
          bytes: letter.bytes.length,
          content: rows ? rows.slice(0, rowsShownMax).map(cutTexts) : null,
          firstBytes: block.subarray(0, firstBytesShown).toString('hex'),
        }
      },
    }),

    route({
      method: 'POST',
      path: '/admin/dead-letters/replay',
      charge: 'call',
      permission: 'operator',
      topic,
      summary:
        'Puts the rows of dead letters into the queue again, the oldest first. Do it once the reason is gone: rows that are ' +
        'refused again become another dead letter.',
      body: object({ deadLetterIds: list(deadLetterId, idsMax) }),
      answer: z.object({ msg: z.string(), replayed: z.array(z.string()), missing: z.array(z.string()) }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const { done, missing } = await forEach(body.deadLetterIds, (id) => replay(caller, id))
        return { msg: 'Replayed', replayed: done, missing }
      },
    }),

    route({
      method: 'POST',
      path: '/admin/dead-letters/discard',
      charge: 'call',
      permission: 'operator',
      topic,
      summary: 'Deletes dead letters with their rows, for good.',
      body: object({ deadLetterIds: list(deadLetterId, idsMax) }),
      answer: z.object({ msg: z.string(), discarded: z.array(z.string()), missing: z.array(z.string()) }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const { done, missing } = await forEach(body.deadLetterIds, (id) => discardDeadLetter({ database }, caller, id))
        return { msg: 'Discarded', discarded: done, missing }
      },
    }),
  ]

  async function replay(caller: Caller, id: bigint) {
    try {
      return await replayDeadLetter({ database, backend }, caller, id)
    } catch (error) {
      if (error instanceof UnknownQueue) throw new HttpError('badRequest', `deadLetterIds: ${error.message}`)
      throw error
    }
  }
}

function toAnswer({ id, queue, rows, receivedMs, setAsideAt, reason }: DeadLetter): z.input<typeof letterAnswer> {
  return {
    deadLetterId: String(id),
    queue,
    rows,
    receivedAt: Number(receivedMs),
    setAsideAt: setAsideAt.getTime(),
    reason,
  }
}

function cutTexts(row: unknown): Record<string, unknown> {
  const cut = (value: unknown) =>
    typeof value === 'string' && value.length > textCharactersMax ? `${value.slice(0, textCharactersMax)}…` : value
  return Object.fromEntries(Object.entries(row as object).map(([name, value]) => [name, cut(value)]))
}

function unknownLetter(id: string): HttpError {
  return new HttpError('deadLetterUnknown', `deadLetterId: there is no dead letter ${id}; it may have been replayed.`)
}
