import type { z } from 'zod'
import { flag, optional, text } from '../../http/body/fields.ts'
import { HttpError, unknownExperiment } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { type ExportedRun, listRunsByKey } from '../../store/postgres/experiments/exported-runs.ts'
import { findMatching } from '../../store/search/matching.ts'
import { type Access, toViewer } from '../access.ts'
import { toPredicateCondition } from '../projects/predicate-condition.ts'
import { parsePredicates } from '../projects/predicates.ts'
import { projectQuery } from '../projects/projects.ts'
import { queryText, readQuery } from '../search/query-field.ts'

const keysMax = 100

/** What an export is about: a project, or some experiments. */
export const scopeFields = {
  ...projectQuery.shape,
  experimentKeys: optional(text(keysMax * 60)).describe(
    `instead of a project: up to ${keysMax} experiment keys, separated by commas`,
  ),
  query: queryText,
  predicates: optional(text(100_000, 1)).describe(
    'those of `/project/runs` as JSON: conditions that must hold besides',
  ),
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
  { experimentKeys, query = '', predicates, archived, ...reference }: ScopeQuery,
): Promise<Scope> {
  if (experimentKeys === undefined) {
    const asked = readQuery(query)
    const rules = parsePredicates(readJson(predicates), 'predicates')
    const { projectId, projectName } = await access.project(caller, reference)
    const found = await findMatching(
      { reads, clickhouse },
      {
        ...{ projectId, query: asked, archived, nowMs: Date.now() },
        also: (runs, { findAmong }) => toPredicateCondition(rules, { reads, clickhouse, runs, findAmong }),
      },
    )
    return { runs: found, name: projectName }
  }
  if (query !== '') throw new HttpError('badRequest', 'query: is for a project, not for experimentKeys')
  if (predicates !== undefined) {
    throw new HttpError('badRequest', 'predicates: are for a project, not for experimentKeys')
  }
  const keys = [...new Set(experimentKeys.split(',').map((it) => it.trim()))].filter((it) => it !== '')
  if (keys.length > keysMax) throw new HttpError('badRequest', `experimentKeys: must have ${keysMax} or fewer`)
  const runs = await listRunsByKey(reads, toViewer(caller), keys)
  const missing = keys.find((key) => !runs.some((it) => it.key === key))
  if (missing !== undefined) throw unknownExperiment(missing)
  return { runs, name: keys.length === 1 ? (keys[0] as string) : 'experiments' }
}

function readJson(text: string | undefined): unknown {
  if (text === undefined) return undefined
  try {
    return JSON.parse(text)
  } catch {
    throw new HttpError('badRequest', 'predicates: expected JSON')
  }
}
