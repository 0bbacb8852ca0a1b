import { Readable } from 'node:stream'
import { ClickHouseError, ClickHouseLogLevel, createClient } from '@clickhouse/client'
import { clusterReadSettings, clusterWriteSettings } from './cluster/layout.ts'
import { longInsert } from './long-inserts.ts'
import { firstSliceMs, paceStream, type TakeSlice } from './paced-stream.ts'
import type { Table } from './table.ts'

type Settings = {
  /** `http://user:password@host:port/database`. */
  url: string
  /** The cluster that the server belongs to; see `cluster/layout.ts`. */
  cluster?: string | undefined
  /** The number of replicas of a shard that must have the rows before an insert is done, or `auto` for the majority. */
  insertQuorum?: string | undefined
  /** Longest time a read may take; inserts and migrations get ten times as long. */
  readTimeoutMs?: number
  /** Runs each read when it is its turn. */
  admit?: Admit
  /** What an export waits for again and again; see `paced-stream.ts`. */
  slices?: () => TakeSlice | undefined
  /** Inserts and the first queries of tenants go before it, merges after it: for work that nobody waits for. */
  isBackground?: boolean
}

/**
 * Idle connections are closed by Node, a second before the server does, which tells after how long. The client's own timers may close
 * one that is in use: when a request is cancelled as it gets its connection, the timer of its last use still runs (1.23).
 */
export const keepAlive = { enabled: true, idle_socket_ttl: 0 } as const

/** Priority 1 goes before 2, 0 takes no part; a heavy query takes one core only; the signal cancels it. */
type Turn = { priority: number; isHeavy: boolean; signal?: AbortSignal }

type Admit = <T>(run: (turn: Turn) => Promise<T>) => Promise<T>

const admitAtOnce: Admit = (run) => run({ priority: 0, isHeavy: false })

export type ClickHouse = ReturnType<typeof openClickHouse>

/**
 * Our joins have the smaller side on the right. Left to itself ClickHouse comes to swap the sides by what it remembers of earlier
 * queries: after one to five readings, label quality of ten million events took twice as long.
 */
export const joinsAsWritten = { query_plan_join_swap_table: 'false' } as const

/**
 * Else ClickHouse starts threads to write an answer: a query of 400 points changes threads 18 times instead of twice, each of which
 * may have to wait for a core, and takes half a millisecond of CPU more (measured).
 */
const writtenByOneThread = { output_format_parallel_formatting: 0 } as const

/**
 * A connection to ClickHouse: one client for reads, with a time limit, and one for inserts. It connects with the first query.
 */
export function openClickHouse({
  url,
  cluster,
  insertQuorum = 'auto',
  readTimeoutMs = 30_000,
  admit = admitAtOnce,
  slices = () => undefined,
  isBackground = false,
}: Settings) {
  const address = new URL(url)
  const database = decodeURIComponent(address.pathname.replace(/^\//, '')) || 'svc'
  address.pathname = ''
  const common = {
    url: address.href,
    // The database does not exist before the first migration, so statements name it themselves.
    keep_alive: keepAlive,
    compression: { request: false, response: false },
    log: { level: ClickHouseLogLevel.OFF },
  }
  const reads = createClient({
    ...common,
    request_timeout: readTimeoutMs + 2_000,
    // An answer that its client reads slowly occupies a connection.
    max_open_connections: 128,
    clickhouse_settings: {
      max_execution_time: readTimeoutMs / 1000,
      // JSON.parse would round integers beyond 2^53.
      output_format_json_quote_64bit_integers: 1,
      ...writtenByOneThread,
      ...joinsAsWritten,
      ...(cluster !== undefined && clusterReadSettings),
      ...(isBackground && inBackground),
    },
  })
  // An export may take hours, and its reader may be slow. Its own few connections, or else exports would take those of reads.
  const exports = createClient({
    ...common,
    request_timeout: exportMsMax,
    max_open_connections: 16,
    clickhouse_settings: { ...exportSettings, ...(cluster !== undefined && clusterReadSettings) },
  })
  const writes = createClient({
    ...common,
    request_timeout: readTimeoutMs * 10,
    max_open_connections: 8,
    clickhouse_settings: {
      ...(cluster !== undefined && clusterWriteSettings(insertQuorum)),
      ...(isBackground && inBackground),
    },
  })

  async function sendBlocks(insert: string, blocks: Buffer[]) {
    const answer = await writes.exec({
      query: `${insert} FORMAT Native`,
      values: Readable.from(distinct(blocks), { objectMode: false }),
      http_headers: { 'Content-Encoding': 'zstd' },
      clickhouse_settings: {
        insert_deduplicate: 0,
        wait_end_of_query: 1,
        async_insert: 0,
        optimize_on_insert: 0,
        // Blocks of a later version may have more columns, and a query need not name all.
        input_format_skip_unknown_fields: 1,
      },
    })
    for await (const _ of answer.stream) {
      // The answer is empty; reading it to its end gives the socket back.
    }
  }

  return {
    database,
    cluster,
    admit,

    /** Runs a statement without an answer. */
    async command(query: string, settings: Record<string, string | number> = {}) {
      await writes.command({ query, clickhouse_settings: settings })
    },

    /** Reads rows as objects; 64-bit integers come as strings. For small answers. */
    async rows<Row>(query: string, params: Record<string, unknown> = {}): Promise<Row[]> {
      return await admit(async (turn) => {
        const { signal } = turn
        const ask = () =>
          reads.query({
            query,
            query_params: params,
            format: 'JSONEachRow',
            clickhouse_settings: { ...toPriority(turn), ...toCancel(signal) },
            ...(signal && { abort_signal: signal }),
          })
        const answer = await nameTemporary(sendAgain(ask), signal)
        return await answer.json<Row>()
      })
    },

    /**
     * Streams the answer in the format that the query names. The server finishes the query before it sends the first byte, so
     * a query that fails is an error here, never a truncated answer.
     */
    async stream(query: string, params: Record<string, unknown> = {}): Promise<Readable> {
      const [answer] = await this.streams([query], params)
      return answer as Readable
    },

    /** The same of the parts of one question, which have one turn together: they run at once, unless it is a heavy one. */
    async streams(queries: string[], params: Record<string, unknown> = {}): Promise<Readable[]> {
      return await admit(async (turn) => {
        const { signal } = turn
        const clickhouse_settings = { ...finishedFirst, ...toPriority(turn), ...toCancel(signal) }
        const ask = async (query: string) => {
          const asked = { query, query_params: params, clickhouse_settings, ...(signal && { abort_signal: signal }) }
          return (
            await nameTemporary(
              sendAgain(() => reads.exec(asked)),
              signal,
            )
          ).stream as Readable
        }
        const answers = await (turn.isHeavy ? settleInTurn(queries, ask) : Promise.allSettled(queries.map(ask)))
        const failed = answers.find((it) => it.status === 'rejected')
        const streams = answers.flatMap((it) => (it.status === 'fulfilled' ? [it.value] : []))
        if (failed === undefined) return streams
        // An answer that nobody reads would keep its connection.
        for (const it of streams) it.destroy()
        throw failed.reason
      })
    },

    /**
     * Streams an answer of any size, of few rows at a time in memory and at low priority. Destroying the stream, or the signal,
     * ends the query. A query that fails later ends the stream with an error. With `isWhole` the server finishes the query
     * first, so that it fails before the first byte or not at all, and `rows` says how many rows the answer has.
     *
     * @param given the rows of a table `given`, which the query may read: lines of JSON, and the table's columns
     */
    async streamExport(
      query: string,
      { isWhole, signal, given }: { isWhole: boolean; signal: AbortSignal; given?: GivenRows },
    ): Promise<{ stream: Readable; rows: number | undefined }> {
      // Its rows come of queries that take turns themselves: they would wait for the slice that waits for them.
      const takeSlice = given ? undefined : slices()
      const endFirst = (await takeSlice?.(firstSliceMs, signal)) ?? (() => undefined)
      const ask = () =>
        exports.exec({
          query,
          abort_signal: signal,
          clickhouse_settings: {
            max_query_size: String(query.length * 4 + 1_000_000),
            wait_end_of_query: isWhole ? 1 : 0,
            ...(given && { given_format: 'JSONEachRow', given_structure: given.structure }),
          } as Record<string, string | number>,
          ...(given && {
            values: toMultipart(given.lines),
            http_headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
          }),
        })
      // Given rows can be sent once.
      const answer = await nameTemporary(given ? ask() : sendAgain(ask), signal).catch((error: unknown) => {
        endFirst()
        throw error
      })
      const whole = answer.stream as Readable
      const stream = takeSlice ? paceStream(whole, { takeSlice, endFirst, signal }) : whole
      // Or else the query would go on for nobody until its buffers are full.
      signal.addEventListener('abort', () => whole.destroy(), { once: true })
      return { stream, rows: isWhole ? Number(answer.summary?.result_rows) : undefined }
    },

    /**
     * Inserts blocks in Native format, compressed with zstd and concatenated. Resolves once the rows are on disk.
     *
     * A repeated insert stores its rows again, and their identity collapses them. ClickHouse's own deduplication must stay
     * off: outside of replicated tables it records an insert before its part is in place. After a kill between the two it
     * skips the repetition, and the rows are lost (measured with 26.7: strace delayed the rename, the server was killed).
     *
     * No part holds a row twice until it is merged with others, which reads of events rely on: a row is in one block only, a
     * block that was delivered twice has the same bytes, and is sent once. Having ClickHouse look for equal rows
     * (`optimize_on_insert`) takes half of its work for an insert of events.
     */
    async insertBlocks({ name, columns }: Table, blocks: Buffer[]) {
      await sendBlocks(`INSERT INTO ${database}.${name} (${columns.map((it) => it.name).join(', ')})`, blocks)
    },

    /** Inserts what a query selects of such blocks, which are its `input`. */
    async insertSelected(table: string, query: string, blocks: Buffer[]) {
      await sendBlocks(`INSERT INTO ${database}.${table} ${query}`, blocks)
    },

    /**
     * Inserts rows in Native format, compressed with zstd: the columns as they are stored, of any number of rows. Part of them
     * may be stored when it fails.
     */
    async insertCopy(table: string, columns: readonly string[], rows: Readable) {
      const answer = await writes.exec({
        query: `INSERT INTO ${database}.${table} (${columns.join(', ')}) FORMAT Native`,
        values: rows,
        http_headers: { 'Content-Encoding': 'zstd' },
        clickhouse_settings: { insert_deduplicate: 0, async_insert: 0, ...longInsert },
      })
      for await (const _ of answer.stream) {
        // As above.
      }
    },

    /** Reads a block in Native format as rows, without storing it. */
    async readBlock(native: Buffer): Promise<unknown[]> {
      const answer = await reads.query({
        query: `SELECT * FROM format(Native, base64Decode('${native.toString('base64')}'))`,
        format: 'JSONEachRow',
        clickhouse_settings: {
          max_query_size: String(native.length * 2 + 1_000),
          output_format_json_quote_denormals: 1,
        },
      })
      return await answer.json()
    },

    /** How many cores a query may take: those of the server, if it is not configured otherwise. */
    async countCores(): Promise<number> {
      const [row] = await this.rows<{ value: string }>("SELECT value FROM system.settings WHERE name = 'max_threads'")
      return Number(/\d+/.exec(row?.value ?? '')?.[0] ?? 1)
    },

    async ping() {
      const answer = await reads.ping()
      if (!answer.success) throw answer.error
    },

    async close() {
      await Promise.all([reads.close(), exports.close(), writes.close()])
    },
  }
}

/** As `Promise.allSettled`, one after the other, up to the first that fails. */
async function settleInTurn<In, Out>(all: In[], work: (it: In) => Promise<Out>): Promise<PromiseSettledResult<Out>[]> {
  const settled: PromiseSettledResult<Out>[] = []
  for (const it of all) {
    const [one] = await Promise.allSettled([work(it)])
    settled.push(one)
    if (one.status === 'rejected') break
  }
  return settled
}

/** Without those that are there before. Only blocks that end alike are compared: each with each would take 3 ms for 256. */
function distinct(blocks: Buffer[]): Buffer[] {
  const byEnd = new Map<string, Buffer[]>()
  return blocks.filter((it) => {
    const end = `${it.length} ${it.toString('latin1', Math.max(0, it.length - 16))}`
    const alike = byEnd.get(end) ?? []
    byEnd.set(end, [...alike, it])
    return !alike.some((other) => other.equals(it))
  })
}

/** ClickHouse goes on with a query that may write when its connection is closed. */
const cancelWhenClosed = { readonly: '2', cancel_http_readonly_queries_on_client_close: 1 } as const

const toCancel = (signal: AbortSignal | undefined) => (signal ? cancelWhenClosed : {})

/** The answer waits in memory; without the size it would be written to a file. */
const finishedFirst = { wait_end_of_query: 1, http_response_buffer_size: String(4 * 1024 ** 2) } as const

/**
 * The first query of a lane goes before the others, also for the CPU: the operating system schedules threads by their niceness,
 * which ClickHouse sets where it has CAP_SYS_NICE. Newer versions have another name for it, too, which 25.8 does not know.
 */
const toPriority = ({ priority, isHeavy }: Turn) =>
  priority === 0
    ? {}
    : {
        priority: String(priority),
        os_thread_priority: priority === 1 ? niceness.first : niceness.other,
        ...(isHeavy && { max_threads: 1 }),
      }

/** 0 are inserts, and queries of no tenant. */
const niceness = { first: '1', background: '10', other: '15', export: '19' } as const

const inBackground = { os_thread_priority: niceness.background } as const

export type GivenRows = { structure: string; lines: Readable }

const exportMsMax = 24 * 3_600_000

const exportSettings = {
  ...cancelWhenClosed,
  max_execution_time: exportMsMax / 1_000,
  // A reader that writes to a slow disk, or that the caller suspended.
  http_send_timeout: 600,
  // Two take twice the CPU beside other queries and are no faster then.
  max_threads: 1,
  max_memory_usage: String(2 * 1024 ** 3),
  max_bytes_before_external_sort: String(512 * 1024 ** 2),
  max_bytes_before_external_group_by: String(512 * 1024 ** 2),
  // Lets queries of lower numbers go first, after each block.
  priority: '10',
  max_block_size: '16384',
  os_thread_priority: niceness.export,
} as const

const boundary = 'svc-given-rows'

function toMultipart(lines: Readable): Readable {
  return Readable.from(
    (async function* () {
      yield `--${boundary}\r\ncontent-disposition: form-data; name="given"; filename="given"\r\n\r\n`
      yield* lines
      yield `\r\n--${boundary}--\r\n`
    })(),
    { objectMode: false },
  )
}

/** Codes of ClickHouse for temporary errors: out of time, memory, slots or space, or read-only for the moment. */
const temporaryCodes = new Set([159, 160, 202, 209, 210, 225, 241, 242, 243, 252, 319, 439, 999])

/**
 * Names temporary errors `StoreAway`, so that they are answered as "unavailable". A time-out of the client has no code. What the
 * signal ended fails with its reason.
 */
async function nameTemporary<T>(work: Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await work
  } catch (error) {
    signal?.throwIfAborted()
    const isTemporary = error instanceof ClickHouseError ? temporaryCodes.has(Number(error.code)) : !hasCode(error)
    if (error instanceof Error && isTemporary) error.name = 'StoreAway'
    throw error
  }
}

/**
 * Sends a query once more whose connection broke before the answer: a server may close an idle one just as it is used again. Reads
 * change nothing, and a server that is down refuses the second at once.
 */
async function sendAgain<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && brokenCodes.has(String(error.code)))) throw error
    return await ask()
  }
}

const brokenCodes = new Set(['ECONNRESET', 'EPIPE'])

function hasCode(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code !== undefined
}

/**
 * Codes of ClickHouse for data that can never be stored: parsing, types, unknown columns, violated constraints. Source:
 * ErrorCodes.cpp of ClickHouse.
 */
const permanentCodes = new Set([
  6, 16, 20, 26, 27, 33, 34, 36, 38, 41, 43, 50, 53, 62, 69, 70, 72, 117, 130, 131, 190, 321, 349, 354, 432, 441, 469,
  561,
])

/** True when repeating the same insert can never succeed. */
export function isPermanent(error: unknown): boolean {
  return error instanceof ClickHouseError && permanentCodes.has(Number(error.code))
}
