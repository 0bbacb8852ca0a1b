import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { readLatestPoints } from '../../store/clickhouse/points/history.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { countValueBytes } from '../../store/postgres/experiments/room.ts'
import { listMlflowRuns, listRunDetails, type MlflowRun } from '../../store/postgres/mlflow/runs.ts'
import { toRun } from './answers.ts'
import type { AwaitStored } from './await-stored.ts'

/** So many runs are read at first, and then at most. */
const runsFirst = 100
const runsAtOnce = 1_000
/** Of JSON: clients ask for 10,000 runs with all that they have, and a tag alone may have a million characters. */
const pageCharactersMax = 32 * 1024 ** 2

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
    const ids = runs.map((it) => it.id)
    const [details, latest] = await Promise.all([listRunDetails(queries, ids), readLatestPoints(clickhouse, ids)])
    const nowMs = Date.now()
    return new Map(
      runs.flatMap((run) => {
        const of = details.get(run.id)
        return of ? [[run.id, toRun(run, of, latest.get(run.id), nowMs)] as const] : []
      }),
    )
  }

  /** The first of these runs: those whose values have so many bytes together, and the one that has more. */
  async function takeFitting(ids: bigint[], bytesMax: number) {
    const bytesOf = await countValueBytes(queries, ids)
    let bytes = 0
    const beyond = ids.findIndex((id) => {
      if (bytes >= bytesMax) return true
      bytes += bytesOf.get(id) ?? 0
      return false
    })
    return beyond < 0 ? ids : ids.slice(0, beyond)
  }

  return {
    /** Undefined if it is gone by now. */
    async readOne(run: MlflowRun) {
      await awaitStored()
      return (await read([run])).get(run.id)
    },

    /**
     * The runs of the first of these ids, in their order: of as many ids (`taken`) as a page holds, and of one at least. How many are
     * read at once is told by the bytes of their values, and by the size of the first, which have metrics as well.
     */
    async readPage(ids: bigint[]) {
      await awaitStored()
      const runs = []
      let [taken, characters] = [0, 0]
      while (taken < ids.length && characters < pageCharactersMax) {
        const left = pageCharactersMax - characters
        const likelyFitting = Math.ceil((left * taken) / Math.max(characters, 1))
        const next = ids.slice(taken, taken + (taken === 0 ? runsFirst : Math.min(likelyFitting, runsAtOnce)))
        const part = await takeFitting(next, left)
        const found = await read(await listMlflowRuns(queries, part))
        for (const id of part) {
          if (characters >= pageCharactersMax) break
          taken++
          const run = found.get(id)
          if (!run) continue
          runs.push(run)
          characters += JSON.stringify(run).length
        }
      }
      return { runs, taken }
    },
  }
}

export type RunReader = ReturnType<typeof createRunReader>
