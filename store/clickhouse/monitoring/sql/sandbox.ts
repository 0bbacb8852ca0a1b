import { createHmac } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { ClickHouseError, ClickHouseLogLevel, createClient } from '@clickhouse/client'
import { clusterReadSettings } from '../../cluster/layout.ts'
import { type ClickHouse, joinsAsWritten, keepAlive } from '../../connection.ts'
import { findForbidden, findForbiddenInCondition, hasAsterisk } from './allowed.ts'
import { SqlRefused, SqlTooLarge } from './errors.ts'
import { sqlTokensTable, sqlViews, tokensSetting } from './views.ts'

/**
 * Runs the SQL that callers write, on the rows of one model. Two fences, each of which would do:
 *
 *    1. the engine's    a user of its own, who may select from the views of `views.ts` only; they show the rows of models
 *                       whose token a statement carries; `readonly`; limits on time, memory and rows
 *    2. ours            ClickHouse parses the text, and each node of its syntax tree must be on a list: `allowed.ts`
 *
 * What is run is not the text of the caller but what ClickHouse made of it (`formatQuery`): without comments, as one statement.
 */
export type SandboxLimits = {
  /** Of one statement. */
  timeMsMax: number
  memoryBytesMax: number
  /** Rows of the stored tables. */
  rowsReadMax: number
  /** Rows of an answer; further ones are left out. */
  rowsMax: number
}

/** A query, as ClickHouse formats it. */
export type CheckedQuery = { sql: string; readsAll: boolean }

export type SqlTable = { columns: { name: string; type: string }[]; rows: unknown[][] }

type RunOptions = {
  /** Rows of the answer at most. */
  rows?: number
  /** Whether aggregates over nothing are NULL, except counts: as in standard SQL. */
  isNullForEmpty?: boolean
}

type Run = RunOptions & { models?: bigint[]; params?: Record<string, unknown>; areJoinsOurs?: boolean }

export type Sandbox = ReturnType<typeof openSandbox>

export function openSandbox({
  url,
  clickhouse,
  limits,
}: {
  /** `http://user:password@host:port/database` of the user of the first fence. */
  url: string
  clickhouse: ClickHouse
  limits: SandboxLimits
}) {
  const address = new URL(url)
  address.pathname = ''
  const { database, cluster } = clickhouse
  const client = createClient({
    url: address.href,
    keep_alive: keepAlive,
    request_timeout: limits.timeMsMax + 5_000,
    max_open_connections: connectionsMax,
    compression: { request: false, response: false },
    log: { level: ClickHouseLogLevel.OFF },
  })
  const settings = {
    ...(cluster !== undefined && clusterReadSettings),
    max_execution_time: limits.timeMsMax / 1_000,
    timeout_overflow_mode: 'throw' as const,
    max_memory_usage: String(limits.memoryBytesMax),
    max_rows_to_read: String(limits.rowsReadMax),
    read_overflow_mode: 'throw' as const,
    cancel_http_readonly_queries_on_client_close: 1 as const,
    output_format_json_quote_64bit_integers: 1 as const,
    // "2026-01-01T00:00:00.000Z", as clients parse it.
    date_time_output_format: 'iso' as const,
    readonly: '1' as const,
  }

  async function run(query: string, more: Run = {}) {
    const tokens = await Promise.all((more.models ?? []).map(ensureToken))
    try {
      return await clickhouse.admit(async ({ priority, isHeavy, signal }) => {
        const answer = await client.query({
          query,
          format: 'JSONCompact',
          query_params: more.params ?? {},
          clickhouse_settings: {
            ...settings,
            [tokensSetting]: tokens.join(','),
            ...(more.rows !== undefined && { limit: String(more.rows) }),
            ...(more.areJoinsOurs && joinsAsWritten),
            ...(more.isNullForEmpty && { aggregate_functions_null_for_empty: 1 }),
            ...(priority > 0 && { priority: String(priority) }),
            ...(isHeavy && { max_threads: 1 }),
          },
          ...(signal && { abort_signal: signal }),
        })
        const { meta = [], data } = await answer.json<unknown[]>()
        return { columns: meta, rows: data }
      })
    } catch (error) {
      throw toSqlError(error)
    }
  }

  // The password of the user is no one's but the service's, so tokens made of it cannot be guessed.
  const toToken = (model: bigint) => createHmac('sha256', address.password).update(`model ${model}`).digest('hex')
  const known = new Set<string>()

  async function ensureToken(model: bigint): Promise<string> {
    const token = toToken(model)
    if (known.has(token)) return token
    const table = `${database}.${sqlTokensTable}`
    const [found] = await clickhouse.rows(`SELECT 1 FROM ${table} WHERE token = '${token}' AND model_id = ${model}`)
    if (!found) await clickhouse.command(`INSERT INTO ${table} (token, model_id) VALUES ('${token}', ${model})`)
    if (known.size >= knownMax) known.clear()
    known.add(token)
    return token
  }

  /** The syntax tree, one node a line. Nothing is run, and no table is looked at. */
  async function explain(sql: string): Promise<string> {
    try {
      const answer = await client.exec({ query: `EXPLAIN AST ${sql}`, clickhouse_settings: settings })
      return await text(answer.stream)
    } catch (error) {
      throw toSqlError(error)
    }
  }

  /** The text as ClickHouse formats it, and its syntax tree. */
  async function parse(given: string): Promise<{ sql: string; tree: string }> {
    if (given.length > textMax) throw new SqlRefused(`must have ${textMax} characters or fewer`)
    const formatted = await run('SELECT formatQuery({text:String})', { params: { text: given } })
    const sql = String(formatted.rows[0]?.[0])
    return { sql, tree: await explain(sql) }
  }

  return {
    database,
    limits,

    /**
     * @throws Error at start, when the user may do more than it should
     */
    async check(): Promise<void> {
      const grants = (await run('SHOW GRANTS')).rows.map(([it]) => String(it))
      const expected = sqlViews.map((it) => `GRANT SELECT ON ${database}.${it.name} TO `)
      const wrong = grants.find((it) => !expected.some((grant) => it.startsWith(grant)))
      const missing = expected.find((it) => !grants.some((grant) => grant.startsWith(it)))
      if (!wrong && !missing) return
      throw new Error(
        wrong
          ? `CLICKHOUSE_SQL_URL: its user may do more than read the views of models: revoke "${wrong}"`
          : `CLICKHOUSE_SQL_URL: its user lacks "${missing}${address.username}"`,
      )
    },

    /** @throws SqlRefused with the reason */
    async checkQuery(given: string): Promise<CheckedQuery> {
      const { sql, tree } = await parse(given)
      const fault = findForbidden(tree)
      if (fault) throw new SqlRefused(fault)
      return { sql, readsAll: hasAsterisk(tree) }
    },

    /** Checks a condition on the columns of a model. @throws SqlRefused with the reason */
    async checkCondition(given: string): Promise<string> {
      const { sql, tree } = await parse(`SELECT (\n${given}\n)`)
      const fault = findForbiddenInCondition(tree)
      if (fault) throw new SqlRefused(fault)
      return sql.replace(/^SELECT\s+/, '')
    },

    /** Runs SQL made of checked parts, on the views of some models. */
    async table(query: string, models: bigint[], options: RunOptions = {}): Promise<SqlTable> {
      return await run(query, { models, ...options })
    },

    /** Runs our own SQL on them, in which callers wrote conditions only, with rows as objects. */
    async rows<Row>(query: string, models: bigint[]): Promise<Row[]> {
      const { columns, rows } = await run(query, { models, areJoinsOurs: true })
      return rows.map((row) => Object.fromEntries(columns.map((it, at) => [it.name, row[at]])) as Row)
    },

    async close() {
      await client.close()
    },
  }
}

const connectionsMax = 8
const knownMax = 100_000
const textMax = 50_000

/** Codes of ClickHouse: too many rows, too slow, out of time, out of memory, too many bytes. */
const limitCodes = new Set([158, 159, 160, 241, 307, 396])
/** No fault of the SQL: the server refuses work, is shutting down, or does not know the user. */
const serverCodes = new Set([192, 193, 194, 202, 203, 209, 210, 225, 242, 252, 279, 319, 439, 516, 999])

function toSqlError(error: unknown): unknown {
  if (!(error instanceof ClickHouseError)) {
    if (error instanceof Error && !('code' in error)) error.name = 'StoreAway'
    return error
  }
  const code = Number(error.code)
  if (serverCodes.has(code)) {
    error.name = 'StoreAway'
    return error
  }
  const message = error.message.split(/\n|:? In scope /)[0]?.slice(0, 500) ?? ''
  if (limitCodes.has(code)) return new SqlTooLarge(message, { cause: error })
  return new SqlRefused(message, { cause: error })
}
