/** What the address of a model in production holds. */
export type Tab = 'drift' | 'compare' | 'labels' | 'alerts' | 'events'
export const tabs: { value: Tab; label: string }[] = [
  { value: 'drift', label: 'Drift' },
  { value: 'compare', label: 'Versions and segments' },
  { value: 'labels', label: 'Labels' },
  { value: 'alerts', label: 'Alerts' },
  { value: 'events', label: 'Events' },
]

export type ProductionSearch = {
  tab?: Tab
  /** Number of windows, and the length of one. */
  windows?: number
  interval?: number
  version?: string
  segment?: string
  /** The feature that is looked at, and the beginning of the window. */
  feature?: string
  part?: 'prediction'
  at?: number
  prediction?: string
}

const toNumber = (it: unknown) => (Number.isSafeInteger(Number(it)) && Number(it) > 0 ? Number(it) : undefined)

export function parseProductionSearch(given: Record<string, unknown>): ProductionSearch {
  const text = (name: string) => (given[name] === undefined || given[name] === '' ? undefined : String(given[name]))
  const all = {
    tab: tabs.find((it) => it.value === given.tab)?.value,
    windows: toNumber(given.windows),
    interval: toNumber(given.interval),
    version: text('version'),
    segment: text('segment'),
    feature: text('feature'),
    part: given.part === 'prediction' ? ('prediction' as const) : undefined,
    at: toNumber(given.at),
    prediction: text('prediction'),
  }
  return Object.fromEntries(Object.entries(all).filter(([, it]) => it !== undefined))
}
