import type { z } from 'zod'
import { flag, optional, text } from '../../http/body/fields.ts'
import { HttpError, unknownExperiment } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { type ExportedRun, listRunsByKey } from '../../store/postgres/experiments/exported-runs.ts'
import { listFoundRuns } from '../../store/postgres/runs/find-runs.ts'
import { type Access, toViewer } from '../access.ts'
import { toAliveSince } from '../experiments/experiments.ts'
import { projectQuery } from '../projects/projects.ts'
import { createConditions } from '../search/condition.ts'
import { queryText, readQuery } from '../search/query-field.ts'

const keysMax = 100

/** What an export is about: a project, or some experiments. */
export const scopeFields = {
  ...projectQuery.shape,
  experimentKeys: optional(text(keysMax * 60)).describe(
    `instead of a project: up to ${keysMax} experiment keys, separated by commas`,
  ),
  query: queryText,
  archived: optional(flag).describe('true: the archived experiments only; false: the others only; absent: all'),
}

type ScopeQuery = z.output<z.ZodObject<typeof scopeFields>>

/** The experiments of an export, and a name for its file. */
export type Scope = { runs: ExportedRun[]; name: string }

type Deps = { reads: Queries; clickhouse: ClickHouse; access: Access }

/** @throws HttpError when the caller may not see the project or one of the experiments */
export async function findScope(
  { reads, clickhouse, access }: Deps,
  caller: Caller,
  { experimentKeys, query = '', archived, ...reference }: ScopeQuery,
): Promise<Scope> {
  if (experimentKeys === undefined) {
    const asked = readQuery(query)
    const { projectId, projectName } = await access.project(caller, reference)
    const nowMs = Date.now()
    const runs = { projectId, archived, aliveSinceMs: toAliveSince(nowMs) }
    const condition = await createConditions({ reads, clickhouse }, runs, nowMs).toCondition(asked)
    return { runs: await listFoundRuns(reads, { ...runs, condition }), name: projectName }
  }
  if (query !== '') throw new HttpError('badRequest', 'query: is for a project, not for experimentKeys')
  const keys = [...new Set(experimentKeys.split(',').map((it) => it.trim()))].filter((it) => it !== '')
  if (keys.length > keysMax) throw new HttpError('badRequest', `experimentKeys: must have ${keysMax} or fewer`)
  const runs = await listRunsByKey(reads, toViewer(caller), keys)
  const missing = keys.find((key) => !runs.some((it) => it.key === key))
  if (missing !== undefined) throw unknownExperiment(missing)
  return { runs, name: keys.length === 1 ? (keys[0] as string) : 'experiments' }
}
