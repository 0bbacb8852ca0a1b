import { createReadThroughCache } from '../../runtime/read-through-cache.ts'
import { findWritableWorkspace, type SoughtWorkspace } from '../../store/postgres/accounts/workspaces.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { ensureMonitoredModel } from '../../store/postgres/monitoring/models.ts'

/** A workspace that a user was taken out of is still written to for at most this long; limits change after it at the latest. */
const freshForMs = 10_000
/** What was not there may be made the next moment. */
const absentForMs = 500
const rememberedMax = 100_000
/** Each is a row that lasts; a name made anew for every event is a mistake, and is told. */
export const modelsPerWorkspaceMax = 10_000

/** Finds the workspaces and models that events are of, without a query per event. */
export function createModelCheck(queries: Queries) {
  const findWorkspace = createReadThroughCache<SoughtWorkspace, { userId: string; name: string }>({
    find: (_id, { userId, name }) => findWritableWorkspace(queries, userId, name),
    freshForMs: { found: freshForMs, absent: absentForMs },
    entriesMax: rememberedMax,
  })
  const findModel = createReadThroughCache<bigint, { workspaceId: string; name: string }>({
    find: async (_id, model) =>
      (await ensureMonitoredModel(queries, { ...model, modelsMax: modelsPerWorkspaceMax }))?.id,
    freshForMs: { found: freshForMs, absent: absentForMs },
    entriesMax: rememberedMax,
  })

  return {
    /** A workspace that the user may write to, or one that is kept from a restricted service account. */
    workspace: (userId: string, name: string) => findWorkspace(`${userId} ${name}`, { userId, name }),

    /** The id of a model, which comes into being when it is first asked for; undefined when there are too many. */
    model: (workspaceId: string, name: string) => findModel(`${workspaceId} ${name}`, { workspaceId, name }),
  }
}

export type ModelCheck = ReturnType<typeof createModelCheck>
