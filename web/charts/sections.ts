import { toTitle } from './chart-card.tsx'
import type { ChartState } from './chart-state.ts'
import type { Metric } from './use-lines.ts'

export type Section = { name: string; metrics: Metric[]; isOpen: boolean }

/** Metrics without a prefix. */
const plain = 'Metrics'
const moved = 'First'
/** What clients log of the machine: closed until somebody asks. */
const closedByDefault = 'sys'

/** Sections that a page gives. All are open until somebody closes them. */
export function toGivenSections(given: Omit<Section, 'isOpen'>[], { search, closed }: ChartState): Section[] {
  const matches = toMatcher(search)
  return given
    .map(({ name, metrics }) => ({
      name,
      metrics: metrics.filter((it) => matches(toTitle(it))),
      isOpen: !closed?.includes(name),
    }))
    .filter((it) => it.metrics.length > 0)
}

/**
 * Metrics by the part of their name before the first `/`, or before the first `.` for those of the machine. An expression that is
 * not valid is taken as text.
 */
export function toSections(metrics: Metric[], state: ChartState): Section[] {
  const matches = toMatcher(state.search)
  const first = state.first ?? []
  const sections = new Map<string, Metric[]>()
  for (const it of metrics) {
    const title = toTitle(it)
    if (!matches(title)) continue
    const name = first.includes(title) ? moved : toPrefix(it.name)
    const members = sections.get(name)
    if (members) members.push(it)
    else sections.set(name, [it])
  }
  return [...sections]
    .map(([name, members]) => ({ name, metrics: members.sort(inOrder(first)), isOpen: isOpen(name, state) }))
    .sort((a, b) => rank(a.name) - rank(b.name) || a.name.localeCompare(b.name))
}

function toPrefix(name: string): string {
  if (name.startsWith('sys.')) return closedByDefault
  const at = name.indexOf('/')
  return at > 0 ? name.slice(0, at) : plain
}

const rank = (name: string) =>
  [moved, plain].indexOf(name) + (name === moved ? -1 : name === plain ? 0 : name === closedByDefault ? 9 : 3)

function inOrder(first: string[]) {
  const place = (it: Metric) => (first.indexOf(toTitle(it)) + first.length + 1) % (first.length + 1) || 0
  return (a: Metric, b: Metric) =>
    (first.includes(toTitle(a)) && first.includes(toTitle(b)) ? place(a) - place(b) : 0) ||
    toTitle(a).localeCompare(toTitle(b), undefined, { numeric: true })
}

function isOpen(name: string, { closed, opened, search }: ChartState): boolean {
  if (closed?.includes(name)) return false
  return name !== closedByDefault || opened?.includes(name) === true || search !== undefined
}

function toMatcher(search: string | undefined): (title: string) => boolean {
  if (!search) return () => true
  try {
    const expression = new RegExp(search, 'i')
    return (it) => expression.test(it)
  } catch {
    return (it) => it.toLowerCase().includes(search.toLowerCase())
  }
}
