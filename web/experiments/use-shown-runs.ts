import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { project as projectQuery } from '../api/projects.ts'
import type { Group } from '../api/runs.ts'
import { views } from '../api/views.ts'
import { drawsGroups } from '../kit/charts-slot.ts'
import { type ShownRun, toDashes } from '../kit/run-colour.ts'
import type { ColumnId } from './columns.ts'
import { present, type RunsSearch, topDefault } from './runs-search.ts'
import { useGroupRuns, withGroups } from './use-group-runs.ts'
import type { useRuns } from './use-runs.ts'

const none: ColumnId[] = []
const noGroups: Group[] = []
/** More lines with bands over each other cannot be told apart. */
export const groupsMax = 10

/** The project, and what the URL asks for of it: a named view with the changes that the URL makes to it. */
export function useSearchOfView(workspace: string, projectName: string, url: RunsSearch) {
  const project = useQuery(projectQuery(workspace, projectName))
  const stored = useQuery({
    ...views(project.data?.projectId ?? ''),
    enabled: project.data !== undefined && url.view !== undefined,
  })
  const view = stored.data?.find((it) => it.id === url.view)
  const search = useMemo(() => ({ ...(view?.search as RunsSearch), ...present(url) }), [view, url])
  return { project, view, search, isReady: url.view === undefined || !stored.isLoading }
}

/** Which runs are on the charts: the first of the table, or all of the first groups, and those shown or hidden by hand. */
export function useShownRuns({ rows, asked, groups }: ReturnType<typeof useRuns>, search: RunsSearch) {
  const loaded = rows.flatMap((it) => (it.kind === 'run' ? [it.run] : []))
  const top = search.top ?? topDefault
  const groupBy = search.group ?? none
  const isOfGroups = groupBy.length > 0 && drawsGroups(search.charts ?? {})
  const read = groupBy.length > 0 ? groups.slice(0, Math.min(top, groupsMax)) : noGroups
  const inGroups = useGroupRuns(asked, groupBy, read)
  const drawable: ShownRun[] = groupBy.length > 0 ? withGroups(inGroups, rows, groupBy) : loaded
  // Every run by itself: those of the open groups, or else of the first ones.
  const first = isOfGroups ? inGroups : (loaded.length > 0 ? loaded : inGroups).slice(0, top)
  const firstKeys = new Set(first.map((it) => it.experimentKey))
  const isShown = (key: string) =>
    search.on?.includes(key) || (firstKeys.has(key) && !search.off?.includes(key)) || false
  const shown = drawable.filter((it) => isShown(it.experimentKey))
  const shownGroups = new Set(shown.flatMap((it) => (it.group ? [it.group.key] : [])))
  const dashOf = toDashes(isOfGroups ? shownGroups : shown.map((it) => it.experimentKey))
  const leftOut = isOfGroups && top > 0 ? groups.reduce((sum, it) => sum + it.count, 0) - drawable.length : 0
  return { loaded, groupBy, isOfGroups, firstKeys, isShown, shown, shownGroups, dashOf, leftOut }
}
