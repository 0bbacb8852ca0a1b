/** What the address of a page of the administration holds. */
export type AdminSearch = {
  /** Of users and keys: a part of a name. */
  search?: string
  /** Of limits and retention: the workspace that is shown. Of the audit log: a filter, as the next four. */
  workspace?: string
  user?: string
  act?: string
  /** The first and the last day, `2026-11-25`. */
  from?: string
  to?: string
  /** The dead letter that is looked at. */
  letter?: string
}

const texts = ['search', 'workspace', 'user', 'act', 'letter'] as const
const days = ['from', 'to'] as const

export function parseAdminSearch(given: Record<string, unknown>): AdminSearch {
  const kept: AdminSearch = {}
  for (const name of texts) if (given[name] !== undefined && given[name] !== '') kept[name] = String(given[name])
  for (const name of days) if (toMidnight(String(given[name])) !== undefined) kept[name] = String(given[name])
  return kept
}

/** The beginning of a day, or of the one after it, by the clock of the reader; undefined for what is no day. */
export function toMidnight(day: string | undefined, daysLater = 0): number | undefined {
  const [, year, month, date] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(day ?? '') ?? []
  if (year === undefined) return undefined
  const ms = new Date(Number(year), Number(month) - 1, Number(date) + daysLater).getTime()
  return Number.isNaN(ms) ? undefined : ms
}
