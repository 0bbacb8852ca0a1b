import { keepPreviousData, useQueries } from '@tanstack/react-query'
import { type Group, type RunsAsked, readRuns } from '../api/runs.ts'
import type { ShownGroup, ShownRun } from '../kit/run-colour.ts'
import { type ColumnId, parseColumnId } from './columns.ts'
import type { Row } from './use-runs.ts'

/** As many runs of a group are drawn; a chart of ten such groups is as much as the service reads at once. */
const runsMax = 200
const refreshMs = 4_000

export const toGroup = (groupBy: ColumnId[], values: Group['values']): ShownGroup => ({
  key: JSON.stringify(['group', groupBy, values]),
  name: values.map((it) => (it === null ? 'none' : Array.isArray(it) ? it.join(', ') : String(it))).join(' · '),
})

/** The runs of groups, open in the table or not, in the order of the table. Empty until all of them are read. */
export function useGroupRuns(asked: RunsAsked, groupBy: ColumnId[], groups: Group[]): ShownRun[] {
  const columns = groupBy.map(parseColumnId)
  return useQueries({
    queries: groups.map(({ values }) => ({
      queryKey: ['runs', asked.workspaceName, asked.projectName, 'of-group', asked, columns, values],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        readRuns({ ...asked, columns: [], groupBy: columns, inGroup: values, size: runsMax }, signal),
      refetchInterval: refreshMs,
      placeholderData: keepPreviousData,
    })),
    combine: (read) =>
      read.some((it) => it.isPending)
        ? []
        : read.flatMap(({ data }, at) =>
            (data?.runs ?? []).map(
              ({ experimentKey, name }): ShownRun => ({
                experimentKey,
                name,
                group: toGroup(groupBy, groups[at]?.values ?? []),
              }),
            ),
          ),
  })
}

/** The runs of groups that are read, and those that the table has besides. */
export function withGroups(read: ShownRun[], rows: Row[], groupBy: ColumnId[]): ShownRun[] {
  const keys = new Set(read.map((it) => it.experimentKey))
  let group: ShownRun['group']
  const others: ShownRun[] = []
  for (const it of rows) {
    if (it.kind === 'group') group = toGroup(groupBy, it.path)
    else if (it.kind === 'run' && group && !keys.has(it.run.experimentKey)) others.push({ ...it.run, group })
  }
  return [...read, ...others]
}
