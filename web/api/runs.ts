import { queryOptions } from '@tanstack/react-query'
import { post } from './http.ts'

/** A column of the table of runs, as the service names it. */
export type Column =
  | { source: 'metadata' | 'parameter' | 'other'; name: string }
  | { source: 'metric'; name: string; context?: string; of?: 'last' | 'min' | 'max' }

export type ColumnType = 'number' | 'text' | 'boolean' | 'time' | 'duration' | 'tags'

/** A column that the runs of a project have. */
export type KnownColumn = Column & { type: ColumnType }

/** Numbers that are not finite come as `NaN`, `Infinity` and `-Infinity`. */
export type Value = string | number | boolean | string[] | null

/** The values are in the order of the columns asked for. */
export type Run = { experimentKey: string; name: string; state: string; values: Value[] }

export type Group = { values: Value[]; count: number }

/** A rule of a filter, as `/project/query` takes it. */
export type Rule = { column: string; operator: string; value?: string; type: string }

export type RunsAsked = {
  workspaceName: string
  projectName: string
  columns: Column[]
  sort: { column: Column; order: 'asc' | 'desc' }[]
  predicates?: { condition: 'AND'; rules: Rule[] }
  /** A part of a name, a key or a tag. */
  search?: string
  query?: string
  archived?: boolean
}

export type RunsPage = { total: number; runs: Run[]; nextCursor?: string }
export type GroupsPage = { total: number; groups: Group[]; nextCursor?: string }

type Paged = { size: number; cursor?: string }

export const readRuns = (asked: RunsAsked & Paged & { groupBy?: Column[]; inGroup?: Value[] }, signal?: AbortSignal) =>
  post<RunsPage>('/project/runs', asked, { signal })

export const readGroups = (asked: RunsAsked & Paged & { groupBy: Column[] }, signal?: AbortSignal) =>
  post<GroupsPage>('/project/runs', asked, { signal })

export const knownColumns = (workspaceName: string, projectName: string) =>
  queryOptions({
    queryKey: ['run-columns', workspaceName, projectName],
    queryFn: async ({ signal }) =>
      (await post<{ columns: KnownColumn[] }>('/project/run-columns', { workspaceName, projectName }, { signal }))
        .columns,
    staleTime: 20_000,
  })
