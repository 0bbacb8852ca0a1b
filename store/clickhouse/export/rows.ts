import type { ClickHouse } from '../connection.ts'
import { chunksTable, selectPointRows } from '../points/chunks.ts'
import { timeOf, whenPresent } from '../points/reads.ts'
import { outputLinesTable, pointsTable, present, storedValue, systemPointsTable } from '../points/tables.ts'

/**
 * The rows of an export, of any number, in the order of the table's key: so ClickHouse reads them in order and holds few at a
 * time. `FINAL` collapses repeated deliveries, as in the reads of one experiment.
 *
 * A project grows while it is exported. What was accepted after `until` is left out, so that parts of one export fit
 * together.
 */
export type Exported = 'metrics' | 'system-metrics' | 'output'

/** An experiment, as its rows name it. */
type NamedRun = { id: bigint; key: string; name: string; project: string }

/** What to export: which rows of which experiments. */
export type ExportScope = {
  what: Exported
  /** Ascending by id. */
  runs: NamedRun[]
  /** Rows accepted until then, in ms since the Unix epoch. */
  untilMs: number
  /** Only what lies between two places, both included. */
  between?: Between | undefined
}

/** A series: its experiment, metric and context. Output has no series: the names are empty. */
type Place = { id: bigint; metric: string; context: string }
export type Between = { from: Place; to: Place }

const time = `fromUnixTimestamp64Milli(${timeOf}, 'UTC') AS time`

const pointQuery = {
  columns: `metric, nullIf(context, '') AS context,
    ${whenPresent(present.step, 'step')} AS step, ${whenPresent(present.epoch, 'epoch')} AS epoch, ${time},
    ${storedValue} AS value`,
  place: { metric: 'toString(exported.metric)', context: 'toString(exported.context)' },
}

const queries = {
  metrics: { table: pointsTable, ...pointQuery },
  'system-metrics': { table: systemPointsTable, ...pointQuery },
  output: {
    table: outputLinesTable,
    columns: `${time}, ${whenPresent(present.offset, 'offset')} AS offset, nullIf(context, '') AS context,
      CAST(stderr, 'Bool') AS stderr, line AS output`,
    place: { metric: `''`, context: `''` },
  },
}

/** The query of the rows. Ids and names are in its text: the URL has no room for those of a large project. */
export function selectExported(clickhouse: ClickHouse, scope: ExportScope): string {
  const { table, columns } = queries[scope.what]
  const runs = inRange(scope)
  // ClickHouse looks up nothing in empty arrays.
  const named = runs.length === 0 ? [{ id: 0n, key: '', name: '', project: '' }] : runs
  const tuple = `(SELECT (groupArray(id), groupArray(key), groupArray(name), groupArray(project))
    FROM format(JSONEachRow, 'id UInt64, key String, name String, project String', ${quote(named.map(toLine).join('\n'))}))`
  const order = [...table.primaryKey, ...table.identity].map((it) => `exported.${it}`)
  return `WITH ${tuple} AS runs
    SELECT ${nameOf(4)} AS project, ${nameOf(2)} AS experiment_key, ${nameOf(3)} AS experiment_name, ${columns}
    FROM ${selectFrom(clickhouse, scope, runs)} ORDER BY ${order.join(', ')}`
}

/** What the runs have as this part of their tuple. Few differ in a block: formats write each once, with a number for each row. */
const nameOf = (part: number) => `toLowCardinality(transform(experiment_id, runs.1, runs.${part}, ''))`

function selectFrom(clickhouse: ClickHouse, scope: ExportScope, runs: NamedRun[]): string {
  if (scope.what === 'metrics') return `(${selectPointRows(clickhouse, toCondition(scope, runs, ''))}) AS exported`
  return `${clickhouse.database}.${queries[scope.what].table.name} AS exported FINAL WHERE ${toCondition(scope, runs)}`
}

/** How many rows each series, or the output of an experiment, has; of chunks, how many points. */
function selectSizes({ database }: ClickHouse, scope: ExportScope): string {
  const { table, place } = queries[scope.what]
  const tables = scope.what === 'metrics' ? [table, chunksTable] : [table]
  const sizes = tables.map(
    (
      it,
    ) => `SELECT (experiment_id, ${place.metric}, ${place.context}) AS at, ${it === chunksTable ? 'count' : '1'} AS size
      FROM ${database}.${it.name} AS exported FINAL WHERE ${toCondition(scope, inRange(scope))}`,
  )
  return `SELECT at, sum(size) AS rows FROM (${sizes.join(' UNION ALL ')}) GROUP BY at`
}

/**
 * Divides the rows into parts of some `rowsMax` rows, each a range of places, with the exact number of its rows. A series, or
 * the output of an experiment, is never divided.
 */
export async function countParts(
  clickhouse: ClickHouse,
  scope: ExportScope,
  rowsMax: number,
  signal: AbortSignal,
): Promise<{ rows: number; between: Between }[]> {
  const { stream } = await clickhouse.streamExport(
    `SELECT toString(sum(rows)) AS rows, min(at) AS first, max(at) AS last FROM (
       SELECT at, rows, intDiv(sum(rows) OVER (ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - rows, ${rowsMax}) AS part
       FROM (${selectSizes(clickhouse, scope)}))
     GROUP BY part ORDER BY part SETTINGS output_format_json_quote_64bit_integers = 1 FORMAT JSONCompactEachRow`,
    { isWhole: true, signal },
  )
  const lines = Buffer.concat(await stream.toArray()).toString()
  return lines
    .split('\n')
    .filter((it) => it !== '')
    .map((line) => {
      const [rows, from, to] = JSON.parse(line) as [string, PlaceText, PlaceText]
      return { rows: Number(rows), between: { from: toPlace(from), to: toPlace(to) } }
    })
}

type PlaceText = [id: string, metric: string, context: string]

const toPlace = ([id, metric, context]: PlaceText): Place => ({ id: BigInt(id), metric, context })

const toLine = ({ id, ...names }: NamedRun) => JSON.stringify({ id: String(id), ...names })

const inRange = ({ runs, between }: ExportScope) =>
  between ? runs.filter((it) => it.id >= between.from.id && it.id <= between.to.id) : runs

/** Columns are qualified, or else the columns of the answer would be meant, of which a context may be null. */
function toCondition({ what, untilMs, between }: ExportScope, runs: NamedRun[], of = 'exported.'): string {
  const ids = runs.length === 0 ? 'NULL' : runs.map((it) => it.id).join(', ')
  const conditions = [`${of}experiment_id IN (${ids})`, `${of}received <= ${untilMs}`]
  if (between && what !== 'output') {
    const { from, to } = between
    const tuple = ({ id, metric, context }: Place) => `(${id}, ${quote(metric)}, ${quote(context)})`
    const place = `(${of}experiment_id, toString(${of}metric), toString(${of}context))`
    conditions.push(`${place} >= ${tuple(from)}`, `${place} <= ${tuple(to)}`)
    // The primary key finds these.
    if (from.id === to.id) conditions.push(`${of}metric >= ${quote(from.metric)}`, `${of}metric <= ${quote(to.metric)}`)
  }
  return conditions.join(' AND ')
}

const quote = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
