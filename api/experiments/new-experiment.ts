import { HttpError } from '../../http/errors.ts'
import type { Database } from '../../store/postgres/database.ts'
import { insertExperiment } from '../../store/postgres/experiments/experiments.ts'
import { ensureProject } from '../../store/postgres/projects/projects.ts'

/** A key that a client chose for its experiment. @throws HttpError when it may not be one */
export function requireNewKey(key: string): string {
  if (/^[a-z0-9]{32,50}$/i.test(key)) return key
  throw new HttpError('badRequest', 'experimentKey: must have 32 to 50 letters and digits; leave it out to get one')
}

type NewExperiment = { key: string; workspaceId: string; projectName: string; userId: string; name: string }

/** Creates an experiment, and its project if it does not exist. Fails with a unique violation when the key is taken. */
export async function createExperiment(
  database: Database,
  { key, workspaceId, projectName, userId, name }: NewExperiment,
): Promise<void> {
  await database.transaction(async (queries) => {
    const projectId = await ensureProject(queries, { workspaceId, userId, name: projectName })
    await insertExperiment(queries, { key, projectId, userId, name, nowMs: Date.now() })
  })
}
