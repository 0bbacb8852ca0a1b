import type { z } from 'zod'
import { flag, optional, text } from '../../http/body/fields.ts'
import { HttpError, unknownExperiment } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { type ExportedRun, listRunsByKey, listRunsOfProject } from '../../store/postgres/experiments/exported-runs.ts'
import { type Access, toViewer } from '../access.ts'
import { projectQuery } from '../projects/projects.ts'

const keysMax = 100

/** What an export is about: a project, or some experiments. */
export const scopeFields = {
  ...projectQuery.shape,
  experimentKeys: optional(text(keysMax * 60)).describe(
    `instead of a project: up to ${keysMax} experiment keys, separated by commas`,
  ),
  archived: optional(flag).describe('true: the archived experiments only; false: the others only; absent: all'),
}

type ScopeQuery = z.output<z.ZodObject<typeof scopeFields>>

/** The experiments of an export, and a name for its file. */
export type Scope = { runs: ExportedRun[]; name: string }

/** @throws HttpError when the caller may not see the project or one of the experiments */
export async function findScope(
  { reads, access }: { reads: Queries; access: Access },
  caller: Caller,
  { experimentKeys, archived, ...reference }: ScopeQuery,
): Promise<Scope> {
  if (experimentKeys === undefined) {
    const project = await access.project(caller, reference)
    return { runs: await listRunsOfProject(reads, project.projectId, archived), name: project.projectName }
  }
  const keys = [...new Set(experimentKeys.split(',').map((it) => it.trim()))].filter((it) => it !== '')
  if (keys.length > keysMax) throw new HttpError('badRequest', `experimentKeys: must have ${keysMax} or fewer`)
  const runs = await listRunsByKey(reads, toViewer(caller), keys)
  const missing = keys.find((key) => !runs.some((it) => it.key === key))
  if (missing !== undefined) throw unknownExperiment(missing)
  return { runs, name: keys.length === 1 ? (keys[0] as string) : 'experiments' }
}
