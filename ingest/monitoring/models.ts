import type { Caller } from '../../http/route.ts'
import { createReadThroughCache } from '../../runtime/read-through-cache.ts'
import { findWritableWorkspace, type SoughtWorkspace } from '../../store/postgres/accounts/workspaces.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { ensureMonitoredModel } from '../../store/postgres/monitoring/models.ts'

/** For at most this long a user removed from a workspace can still write to it, and old limits hold. */
const freshForMs = 10_000
/** Something absent may be created at any moment. */
const absentForMs = 500
const rememberedMax = 100_000
/** Models are never removed by themselves: a client that names a new one in every event must be stopped. */
const modelsPerWorkspaceMax = 10_000

export const tooManyModels = `the workspace has ${modelsPerWorkspaceMax} models, the most it may have`

/** Finds workspaces and models by name, cached so that events need no query each. */
export function createModelCheck(queries: Queries) {
  const findWorkspace = createReadThroughCache<SoughtWorkspace, { viewerId: string; name: string }>({
    find: (_id, { viewerId, name }) => findWritableWorkspace(queries, viewerId, name),
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
    /** A workspace that the caller may write to, or know why not. */
    workspace: ({ viewerId }: Caller, name: string) => findWorkspace(`${viewerId} ${name}`, { viewerId, name }),

    /** The id of a model. A new name creates one; undefined when the workspace has too many. */
    model: (workspaceId: string, name: string) => findModel(`${workspaceId} ${name}`, { workspaceId, name }),
  }
}

export type ModelCheck = ReturnType<typeof createModelCheck>
