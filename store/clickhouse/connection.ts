import { Readable } from 'node:stream'
import { ClickHouseError, ClickHouseLogLevel, createClient } from '@clickhouse/client'
import { clusterReadSettings, clusterWriteSettings } from './cluster/layout.ts'
import type { Table } from './table.ts'

type Settings = {
  /** `http://user:password@host:port/database`. */
  url: string
  /** The cluster that the server is of; see `cluster.ts`. */
  cluster?: string | undefined
  /** On how many replicas of a shard rows are before an insert is done: a number, or `auto` for most of them. */
  insertQuorum?: string | undefined
  /** Longest time a read may take; inserts and migrations get ten times as long. */
  readTimeoutMs?: number
}

export type ClickHouse = ReturnType<typeof openClickHouse>

/**
 * A connection to ClickHouse: one client for reads, with a bound on their time, and one for inserts. Nothing is asked of
 * the server before the first query.
 */
export function openClickHouse({ url, cluster, insertQuorum = 'auto', readTimeoutMs = 30_000 }: Settings) {
  const address = new URL(url)
  const database = decodeURIComponent(address.pathname.replace(/^\//, '')) || 'svc'
  address.pathname = ''
  const common = {
    url: address.href,
    // The database may not exist before the first migration, so statements name it themselves.
    keep_alive: { enabled: true, idle_socket_ttl: 2_000 },
    compression: { request: false, response: false },
    log: { level: ClickHouseLogLevel.OFF },
  }
  const reads = createClient({
    ...common,
    request_timeout: readTimeoutMs + 2_000,
    // An answer that its reader leaves unread holds one of them for a while.
    max_open_connections: 128,
    clickhouse_settings: {
      max_execution_time: readTimeoutMs / 1000,
      // Numbers of JSON would be rounded beyond 2^53 here.
      output_format_json_quote_64bit_integers: 1,
      ...(cluster !== undefined && clusterReadSettings),
    },
  })
  const writes = createClient({
    ...common,
    request_timeout: readTimeoutMs * 10,
    max_open_connections: 8,
    clickhouse_settings: cluster === undefined ? {} : clusterWriteSettings(insertQuorum),
  })

  return {
    database,
    cluster,

    /** Runs a statement that answers nothing. */
    async command(query: string, settings: Record<string, string | number> = {}) {
      await writes.command({ query, clickhouse_settings: settings })
    },

    /** Reads rows as objects; 64-bit integers come as strings. For small answers. */
    async rows<Row>(query: string, params: Record<string, unknown> = {}): Promise<Row[]> {
      const answer = await nameAway(reads.query({ query, query_params: params, format: 'JSONEachRow' }))
      return await answer.json<Row>()
    },

    /**
     * Reads an answer in the format that the query names, as a stream of bytes. The server finishes the query before it
     * sends the first of them, so a query that fails is an error here, never a torn answer.
     */
    async stream(query: string, params: Record<string, unknown> = {}): Promise<Readable> {
      const answer = await nameAway(
        reads.exec({ query, query_params: params, clickhouse_settings: { wait_end_of_query: 1 } }),
      )
      return answer.stream as Readable
    },

    /**
     * Inserts blocks in Native format, compressed with zstd and concatenated. Resolves once the rows are on disk.
     *
     * An insert that is repeated stores its rows again, and their identity makes one of them. ClickHouse's own
     * deduplication must stay off: outside of replicated tables it notes an insert as done before its part is in place,
     * so after a kill between the two it takes the repetition for done as well, and the rows are nowhere (measured with
     * 26.7: the rename held up by strace, the server killed meanwhile).
     */
    async insertBlocks({ name, columns, eachOnceInPart = false }: Table, blocks: Buffer[]) {
      const names = columns.map((it) => it.name).join(', ')
      const answer = await writes.exec({
        query: `INSERT INTO ${database}.${name} (${names}) FORMAT Native`,
        values: Readable.from(blocks, { objectMode: false }),
        http_headers: { 'Content-Encoding': 'zstd' },
        clickhouse_settings: {
          insert_deduplicate: 0,
          wait_end_of_query: 1,
          async_insert: 0,
          optimize_on_insert: eachOnceInPart ? 1 : 0,
        },
      })
      for await (const _ of answer.stream) {
        // The answer is empty; reading it to its end gives the socket back.
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

    async ping() {
      const answer = await reads.ping()
      if (!answer.success) throw answer.error
    },

    async close() {
      await Promise.all([reads.close(), writes.close()])
    },
  }
}

/**
 * Codes of ClickHouse that mean "not now": out of time, of memory, of slots or of space, or read-only for the moment.
 */
const passingCodes = new Set([159, 160, 202, 209, 210, 225, 241, 242, 243, 252, 319, 439, 999])

/** Names the faults that pass by themselves, for whoever maps errors; a time-out of the client has no code at all. */
async function nameAway<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    const passes = error instanceof ClickHouseError ? passingCodes.has(Number(error.code)) : !hasCode(error)
    if (error instanceof Error && passes) error.name = 'StoreAway'
    throw error
  }
}

function hasCode(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code !== undefined
}

/**
 * Codes of ClickHouse that mean the data itself cannot be stored, now or later: parsing, types, unknown
 * columns, violated constraints. Source:
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
