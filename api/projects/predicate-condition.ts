import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { type Among, listCurrentValues } from '../../store/clickhouse/points/metric-search.ts'
import type { Queries } from '../../store/postgres/database.ts'
import type { RunCondition } from '../../store/postgres/runs/condition.ts'
import type { RunAttribute } from '../../store/postgres/runs/fields.ts'
import { type ListedField, listIdsByValue, type RunScope } from '../../store/postgres/runs/find-runs.ts'
import { all, toIds } from '../../store/search/conditions.ts'
import { metadataAliases, systemColumns } from './columns.ts'
import type { Column, Condition, Rule } from './predicates.ts'

type Deps = {
  reads: Queries
  clickhouse: ClickHouse
  runs: Omit<RunScope, 'condition'>
  /** The experiments that ClickHouse looks at. */
  findAmong(): Promise<Among>
}

/**
 * Turns predicates into a condition on runs. Their operators compare as clients of long ago do, which Postgres cannot, so each
 * value that the project has of a column is tried here, once.
 */
export async function toPredicateCondition(condition: Condition, deps: Deps): Promise<RunCondition> {
  if (!('conditions' in condition)) return await toRuleCondition(condition, deps)
  const of = await Promise.all(condition.conditions.map((it) => toPredicateCondition(it, deps)))
  const group: RunCondition = { is: condition.isAnd ? 'and' : 'or', of }
  return condition.isNegated ? { is: 'not', of: group } : group
}

async function toRuleCondition({ column, criterion }: Rule, deps: Deps): Promise<RunCondition> {
  const isTag = column.source === 'tag'
  const isSought = criterion.tests === 'presence' ? (it: string) => !isTag || it === column.name : criterion.test
  // A run has several tags, of which none may pass; of anything else it has one value or none.
  const isTurned = criterion.isNegated && criterion.tests === 'value' && !isTag
  const values = await listValues(column, deps)
  const found: RunCondition = {
    is: 'among',
    ids: toIds(values.filter((it) => isSought(it.value) !== isTurned).map((it) => it.ids)),
  }
  const isAbsence = criterion.tests === 'presence' ? !criterion.isNegated : isTag && criterion.isNegated
  return isAbsence ? { is: 'not', of: found } : found
}

async function listValues({ source, name }: Column, { reads, clickhouse, runs, findAmong }: Deps) {
  if (source === 'metrics') return await listCurrentValues(clickhouse, await findAmong(), name)
  const field = toField(source, name)
  if (field === undefined) return []
  const found = await listIdsByValue(reads, { ...runs, condition: all }, field)
  // Clients compare it in seconds.
  if (source !== 'metadata' || name !== 'duration') return found
  return found.map((it) => ({ ...it, value: String(Number(it.value) / 1_000) }))
}

function toField(source: Exclude<Column['source'], 'metrics'>, name: string): ListedField | undefined {
  if (source === 'tag') return { of: 'tags' }
  if (source === 'params') return { of: 'parameter', name }
  if (source === 'log_other') return { of: 'other', name }
  const detail = systemColumns.get(name)
  if (detail !== undefined) return { of: 'system', name: detail }
  const attribute = attributes.get(metadataAliases.get(name) ?? name)
  return attribute === undefined ? undefined : { of: 'run', name: attribute }
}

/** The fields of an experiment's metadata. */
const attributes = new Map<string, RunAttribute>([
  ['experimentKey', 'key'],
  ['experimentName', 'name'],
  ['userName', 'userName'],
  ['projectId', 'projectId'],
  ['projectName', 'projectName'],
  ['workspaceName', 'workspaceName'],
  ['filePath', 'filePath'],
  ['fileName', 'fileName'],
  ['startTimeMillis', 'startTime'],
  ['endTimeMillis', 'endTime'],
  ['durationMillis', 'duration'],
  ['duration', 'duration'],
  ['archived', 'archived'],
  ['running', 'isRunning'],
  ['hasCrashed', 'hasCrashed'],
  ['error', 'error'],
  ['throttle', 'isThrottled'],
])
