import { keepPreviousData, useInfiniteQuery, useQueries } from '@tanstack/react-query'
import { useRef } from 'react'
import { isLive } from '../api/live.ts'
import {
  type Group,
  type GroupsPage,
  type Run,
  type RunsAsked,
  type RunsPage,
  readGroups,
  readRuns,
} from '../api/runs.ts'
import { useLive } from '../kit/use-live.ts'
import { type ColumnId, parseColumnId } from './columns.ts'
import type { RunsSearch } from './runs-search.ts'
import { toPredicates, toSort } from './runs-search.ts'

const firstPageSize = 200
const groupSize = 200
const watchedMax = 500
/** How often rows are read again while the page is looked at: often while a run goes on and nobody tells of new points. */
const liveMs = 1_000
const restingMs = 4_000
/** A read that takes long is made less often: the pause is so many times as long. */
const pausePerRead = 10

/** A line of the table: a run with the columns of its values, or the head of a group. */
export type Row =
  | { kind: 'run'; run: Run; columns: ColumnId[]; level: number }
  | { kind: 'group'; path: Group['values']; count: number; level: number; isOpen: boolean; isLeaf: boolean }
  | { kind: 'rest'; path: Group['values']; count: number; level: number }

/** What is still on the page while other columns are on their way has the columns it was read with. */
type LoadedRuns = RunsPage & { columns: ColumnId[] }

type Project = { workspaceName: string; projectName: string }

function toAsked(project: Project, columns: ColumnId[], search: RunsSearch): RunsAsked {
  return {
    ...project,
    columns: columns.map(parseColumnId),
    sort: toSort(search.sort),
    predicates: toPredicates(search.filter),
    query: search.search,
    ...(search.archived && { archived: true }),
  }
}

/** The runs of a project that the URL asks for, page by page; grouped, the groups and the runs of the open ones. */
export function useRuns(project: Project, columns: ColumnId[], search: RunsSearch, isReady: boolean) {
  const groupBy = search.group?.length ? search.group.map(parseColumnId) : undefined
  const asked = toAsked(project, columns, search)
  const tookMs = useRef(0)
  const toRefreshMs = (pages: (LoadedRuns | GroupsPage)[]) => {
    const isAsked = !isLive() && runsOf(pages).some((it) => it.state === 'running')
    return Math.max(isAsked ? liveMs : restingMs, pausePerRead * tookMs.current)
  }
  const pages = useInfiniteQuery({
    queryKey: ['runs', project.workspaceName, project.projectName, asked, groupBy],
    queryFn: async ({ pageParam: cursor, signal }): Promise<LoadedRuns | GroupsPage> => {
      const beganAt = performance.now()
      const page = groupBy
        ? await readGroups({ ...asked, groupBy, size: 1_000, cursor }, signal)
        : { ...(await readRuns({ ...asked, size: firstPageSize, cursor }, signal)), columns }
      tookMs.current = performance.now() - beganAt
      return page
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor,
    placeholderData: keepPreviousData,
    // All pages are read again, so many of them are less often.
    refetchInterval: ({ state }) =>
      state.error ? false : toRefreshMs(state.data?.pages ?? []) * Math.max(1, state.data?.pages.length ?? 1),
    enabled: isReady,
  })
  const loaded = pages.data?.pages ?? []
  // Those that are not running too: clients without a sign of life log to them, and ended runs go on.
  const watched = runsOf(loaded).slice(0, watchedMax)
  useLive(
    watched.map((it) => it.experimentKey),
    () => pages.refetch({ cancelRefetch: false }),
  )
  const groups = loaded.flatMap((it) => ('groups' in it ? it.groups : []))
  const open = new Set((search.open ?? []).map((it) => JSON.stringify(it)))
  const leaves = groupBy ? groups.filter((it) => isVisible(it.values, open)) : []
  const contents = useQueries({
    queries: leaves.map(({ values }) => ({
      queryKey: ['runs', project.workspaceName, project.projectName, asked, groupBy, values],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        readRuns({ ...asked, groupBy, inGroup: values, size: groupSize }, signal),
      refetchInterval: restingMs,
    })),
  })
  const inLeaf = new Map(leaves.map((it, at) => [JSON.stringify(it.values), contents[at]?.data]))
  const rows: Row[] = groupBy
    ? toGroupRows(groups, open, inLeaf, columns)
    : loaded.flatMap((it) =>
        'runs' in it ? it.runs.map((run): Row => ({ kind: 'run', run, columns: it.columns, level: 0 })) : [],
      )
  return { ...pages, rows, asked, groups, total: loaded[0]?.total, groupCount: groupBy && groups.length }
}

const runsOf = (pages: (LoadedRuns | GroupsPage)[]) => pages.flatMap((it) => ('runs' in it ? it.runs : []))

/** A leaf is in sight when it and all groups around it are open. */
const isVisible = (path: Group['values'], open: Set<string>) =>
  path.every((_, at) => open.has(JSON.stringify(path.slice(0, at + 1))))

/** The service answers every combination of values; those with the same beginning become one head per level. */
function toGroupRows(
  groups: Group[],
  open: Set<string>,
  inLeaf: Map<string, RunsPage | undefined>,
  columns: ColumnId[],
): Row[] {
  const rows: Row[] = []
  function add(some: Group[], level: number) {
    const byValue = Map.groupBy(some, (it) => JSON.stringify(it.values.slice(0, level + 1)))
    for (const [id, members] of byValue) {
      const path = members[0]?.values.slice(0, level + 1) ?? []
      const isLeaf = path.length === members[0]?.values.length
      const isOpen = open.has(id)
      const count = members.reduce((sum, it) => sum + it.count, 0)
      rows.push({ kind: 'group', path, count, level, isOpen, isLeaf })
      if (!isOpen) continue
      if (!isLeaf) {
        add(members, level + 1)
        continue
      }
      const runs = inLeaf.get(id)?.runs ?? []
      for (const run of runs) rows.push({ kind: 'run', run, columns, level: level + 1 })
      if (runs.length > 0 && count > runs.length)
        rows.push({ kind: 'rest', path, count: count - runs.length, level: level + 1 })
    }
  }
  add(groups, 0)
  return rows
}
