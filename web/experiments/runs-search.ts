import type { RunsAsked, Value } from '../api/runs.ts'
import { type ColumnId, parseColumnId } from './columns.ts'

/** A rule of the filter: a column, an operator and what it is compared with. */
export type Filter = [column: ColumnId, operator: string, value: string, type: string]

/** The state of the page of a project: all of it is in the URL. What is absent is as it is by default. */
export type RunsSearch = {
  /** The id of a named view; the other fields are the changes to it. */
  view?: string
  columns?: ColumnId[]
  widths?: Record<ColumnId, number>
  /** Columns that stay in sight, besides the name. */
  pinned?: ColumnId[]
  /** A minus before a column sorts downwards. */
  sort?: string[]
  filter?: Filter[]
  /** A query: words, or tests such as `metric.loss < 0.1`. */
  search?: string
  group?: ColumnId[]
  /** The groups that are open, each by its values. */
  open?: Value[][]
  archived?: boolean
  /** So many runs from the top are drawn on the charts. */
  top?: number
  on?: string[]
  off?: string[]
  /** The part of the page that the table takes, in percent: 0 hides it, 100 hides the charts. */
  split?: number
  /** What the charts keep here. */
  charts?: Record<string, unknown>
}

export const topDefault = 10
export const splitDefault = 42

/** Keeps the fields of other rooms, such as those of the charts. */
export function parseRunsSearch(given: Record<string, unknown>): RunsSearch {
  const texts = (it: unknown) => (Array.isArray(it) && it.every((one) => typeof one === 'string') ? it : undefined)
  const number = (it: unknown, max: number) =>
    typeof it === 'number' && it >= 0 && it <= max ? Math.round(it) : undefined
  const isFilter = (it: unknown) => Array.isArray(it) && it.length === 4 && it.every((one) => typeof one === 'string')
  return {
    ...given,
    view: typeof given.view === 'string' ? given.view : undefined,
    columns: texts(given.columns),
    widths: toWidths(given.widths),
    pinned: texts(given.pinned),
    sort: texts(given.sort),
    filter: Array.isArray(given.filter) && given.filter.every(isFilter) ? (given.filter as Filter[]) : undefined,
    search: given.search === undefined || given.search === '' ? undefined : String(given.search),
    group: texts(given.group),
    open: Array.isArray(given.open) && given.open.every(Array.isArray) ? (given.open as Value[][]) : undefined,
    archived: given.archived === true ? true : undefined,
    top: number(given.top, 1_000),
    on: texts(given.on),
    off: texts(given.off),
    split: number(given.split, 100),
    charts: isRecord(given.charts) ? given.charts : undefined,
  }
}

function isRecord(it: unknown): it is Record<string, unknown> {
  return typeof it === 'object' && it !== null && !Array.isArray(it)
}

function toWidths(given: unknown): Record<ColumnId, number> | undefined {
  if (!isRecord(given)) return undefined
  return Object.fromEntries(Object.entries(given).filter((it): it is [string, number] => typeof it[1] === 'number'))
}

/** Without the fields that are undefined, so that they neither cover a view nor stand in the URL. */
export const present = (search: RunsSearch): RunsSearch =>
  Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined))

/** What the page of one chart needs to show the same runs. */
export function toSearchOfChart({ columns, widths, pinned, open, split, ...rest }: RunsSearch): RunsSearch {
  return present(rest)
}

export function toSort(sort: string[] | undefined): RunsAsked['sort'] {
  return (sort ?? []).map((it) => {
    const isDown = it.startsWith('-')
    return { column: parseColumnId(isDown ? it.slice(1) : it), order: isDown ? 'desc' : 'asc' }
  })
}

const sources = { metadata: 'metadata', parameter: 'params', other: 'log_other', metric: 'metrics' } as const
/** Fields of metadata by the names that predicates have for them. */
const predicateNames: Record<string, string> = {
  name: 'experimentName',
  key: 'experimentKey',
  startTime: 'startTimeMillis',
  endTime: 'endTimeMillis',
}

export function toPredicates(filter: Filter[] | undefined): RunsAsked['predicates'] {
  if (!filter?.length) return undefined
  const rules = filter.map(([id, operator, value, type]) => {
    if (id === 'tags') return { column: `${value}--tag`, operator, value, type: 'string' }
    const { source, name } = parseColumnId(id)
    const field = source === 'metadata' ? (predicateNames[name] ?? name) : name
    return { column: `${field}--${sources[source]}`, operator, value, type }
  })
  return { condition: 'AND', rules }
}

/** How the order changes when a head is clicked: down, up, as before. */
export function toNextSort(sort: string[] | undefined, id: ColumnId): string[] | undefined {
  if (sort?.[0] === `-${id}`) return [id]
  return sort?.[0] === id ? undefined : [`-${id}`]
}
