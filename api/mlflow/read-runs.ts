import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { readLatestPoints } from '../../store/clickhouse/points/history.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { listMlflowRuns, listRunDetails, type MlflowRun } from '../../store/postgres/mlflow/runs.ts'
import { toRun } from './answers.ts'
import type { AwaitStored } from './await-stored.ts'

/** Runs with all that MLflow tells of them: the newest point of each metric, parameters, tags, datasets and models. */
export function createRunReader({
  queries,
  clickhouse,
  awaitStored,
}: {
  queries: Queries
  clickhouse: ClickHouse
  awaitStored: AwaitStored
}) {
  async function read(runs: MlflowRun[]) {
    await awaitStored()
    const ids = runs.map((it) => it.id)
    const [details, latest] = await Promise.all([listRunDetails(queries, ids), readLatestPoints(clickhouse, ids)])
    const nowMs = Date.now()
    return runs.flatMap((run) => {
      const of = details.get(run.id)
      return of ? [toRun(run, of, latest.get(run.id), nowMs)] : []
    })
  }

  return {
    read,

    /** In the order of the ids. */
    async readById(ids: bigint[]) {
      const found = new Map((await listMlflowRuns(queries, ids)).map((it) => [it.id, it]))
      return await read(ids.flatMap((id) => found.get(id) ?? []))
    },
  }
}

export type RunReader = ReturnType<typeof createRunReader>
