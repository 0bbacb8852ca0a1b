import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { expireEvents, expireExperimentRows, listAged } from '../../store/clickhouse/expiry.ts'
import { eventKinds } from '../../store/clickhouse/monitoring/tables.ts'
import {
  beginSweep,
  endSweep,
  findWorkspacesOf,
  listExperimentsOf,
  listModelsOf,
  listRetained,
  type Retained,
  subtractFromAccepted,
} from '../../store/postgres/accounts/retention.ts'
import type { Database } from '../../store/postgres/database.ts'
import { tryLock } from '../../store/postgres/lock.ts'
import { queues } from '../../store/queue/queues.ts'
import type { RetentionType } from '../../store/retention.ts'

/**
 * Deletes data older than a workspace's retention. Age counts from acceptance: an old training run that is uploaded today
 * stays for the whole time. The limit is a whole day (UTC), so that each table is read once a day, not in every sweep.
 *
 * One worker sweeps at a time. An interrupted sweep is repeated from the start; until then summaries may include deleted
 * points.
 */
type Settings = { database: Database; clickhouse: ClickHouse; now?: () => number }

const dayMs = 24 * 3_600_000
const lock = 7_392_007
/** Experiments per batch: they have no summaries for a moment. */
const experimentsAtOnce = 200

const experimentTypes = ['metrics', 'systemMetrics', 'output'] as const satisfies RetentionType[]
const eventTypes = { events: eventKinds.EVENTS, labels: eventKinds.LATE_LABELS } as const satisfies Partial<
  Record<RetentionType, number>
>

type Due = { workspaceId: string; type: RetentionType; upToMs: number }

/** Deletes expired rows and returns their number. */
export async function expire({ database, clickhouse, now = Date.now }: Settings): Promise<number> {
  const retained = await listRetained(database)
  if (retained.length === 0) return 0
  return await database.transaction(async (queries) => {
    if (!(await tryLock(queries, lock))) return 0
    let deleted = 0
    for (const type of experimentTypes) deleted += await expireOfExperiments(type)
    for (const type of Object.keys(eventTypes) as (keyof typeof eventTypes)[]) deleted += await expireOfModels(type)
    return deleted
  })

  async function expireOfExperiments(type: (typeof experimentTypes)[number]): Promise<number> {
    const due = await listDue(type)
    if (due.length === 0) return 0
    const { table } = queues[type]
    const aged = await listAged(clickhouse, table, Math.max(...due.map((it) => it.upToMs)))
    const workspaces = await findWorkspacesOf(
      database,
      aged.map((it) => it.experimentId),
      due.map((it) => it.workspaceId),
    )
    let total = 0
    for (const { isAgain, ...sweep } of due) {
      const { workspaceId, upToMs } = sweep
      const ofWorkspace = aged.filter((it) => it.oldestMs < upToMs && workspaces.get(it.experimentId) === workspaceId)
      const ids = isAgain ? await listExperimentsOf(database, workspaceId) : ofWorkspace.map((it) => it.experimentId)
      let rows = 0
      for (let at = 0; at < ids.length; at += experimentsAtOnce) {
        const experimentIds = ids.slice(at, at + experimentsAtOnce)
        const counts = await expireExperimentRows(clickhouse, table, { experimentIds, beforeMs: upToMs })
        await subtractFromAccepted(database, type, counts)
        rows += counts.reduce((sum, it) => sum + it.rows, 0)
      }
      await endSweep(database, { ...sweep, rows })
      total += rows
    }
    return total
  }

  async function expireOfModels(type: keyof typeof eventTypes): Promise<number> {
    let total = 0
    for (const { isAgain, ...sweep } of await listDue(type)) {
      let rows = 0
      for (const modelId of await listModelsOf(database, sweep.workspaceId)) {
        rows += await expireEvents(clickhouse, { modelId, kind: eventTypes[type], beforeMs: sweep.upToMs, isAgain })
      }
      await endSweep(database, { ...sweep, rows })
      total += rows
    }
    return total
  }

  async function listDue(type: RetentionType): Promise<(Due & { isAgain: boolean })[]> {
    const due: (Due & { isAgain: boolean })[] = []
    for (const { workspaceId, days } of retained as Retained[]) {
      const keptDays = days[type]
      if (keptDays === undefined) continue
      const upToMs = Math.floor((now() - keptDays * dayMs) / dayMs) * dayMs
      const sweep = { workspaceId, type, upToMs }
      const begun = await beginSweep(database, sweep)
      if (begun !== 'done') due.push({ ...sweep, isAgain: begun === 'again' })
    }
    return due
  }
}
