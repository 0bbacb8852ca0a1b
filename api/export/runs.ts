import { HttpError } from '../../http/errors.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { selectRuns, toGivenRuns, type WideRun } from '../../store/clickhouse/export/runs.ts'
import { listSeriesNames } from '../../store/clickhouse/points/series-counts.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { listExperimentsById } from '../../store/postgres/experiments/experiments.ts'
import { type ExportedRun, listParameterNames, listParameters } from '../../store/postgres/experiments/exported-runs.ts'
import { listTagsOfRuns } from '../../store/postgres/experiments/runs.ts'
import { stateOf } from '../projects/run-columns.ts'

type Deps = { reads: Queries; clickhouse: ClickHouse }

const pageSize = 200
/** The query is in the URL of the request to ClickHouse, which may have a megabyte. */
const queryBytesMax = 500_000

/**
 * The query of the runs, and the rows that it is given.
 *
 * @throws HttpError `badRequest` when the runs have too many parameters and metrics together
 */
export async function selectWideRuns({ reads, clickhouse }: Deps, runs: ExportedRun[]) {
  const ids = runs.map((it) => it.id)
  const [parameters, metrics] = await Promise.all([listParameterNames(reads, ids), listSeriesNames(clickhouse, ids)])
  const columns = { parameters, metrics }
  const query = selectRuns(columns)
  if (Buffer.byteLength(encodeURIComponent(query)) > queryBytesMax) {
    throw new HttpError(
      'badRequest',
      `These experiments have ${parameters.length} parameters and ${metrics.length} metrics, too many for one table: export ` +
        'fewer of them by experimentKeys, or /export/metrics.',
    )
  }
  return { query, given: toGivenRuns(clickhouse, columns, listPages(reads, runs)) }
}

async function* listPages(reads: Queries, runs: ExportedRun[]): AsyncGenerator<WideRun[]> {
  for (let from = 0; from < runs.length; from += pageSize) {
    const ids = runs.slice(from, from + pageSize).map((it) => it.id)
    const [experiments, parameters, tags] = await Promise.all([
      listExperimentsById(reads, ids),
      listParameters(reads, ids),
      listTagsOfRuns(reads, ids),
    ])
    const nowMs = Date.now()
    const byId = experiments.toSorted((a, b) => Number(a.id - b.id))
    yield byId.map((it) => ({
      id: it.id,
      project: it.projectName,
      key: it.key,
      name: it.name,
      state: stateOf(it, nowMs),
      userName: it.userName,
      archived: it.archived,
      startMs: Number(it.startTimeMs),
      endMs: Number(it.endTimeMs ?? it.activeAtMs),
      tags: tags.get(it.id) ?? [],
      parameters: parameters.get(it.id) ?? new Map(),
    }))
  }
}
