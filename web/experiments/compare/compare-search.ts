/** The state of the page that compares runs, as its URL keeps it. */

export const views = [
  { name: 'values', label: 'Values' },
  { name: 'plots', label: 'Plots' },
  { name: 'output', label: 'Output' },
  { name: 'code', label: 'Code' },
  { name: 'patch', label: 'Git patch' },
] as const

type View = (typeof views)[number]['name']

export type CompareSearch = {
  keys: string[]
  view?: Exclude<View, 'values'>
  /** Only what differs between the runs. */
  differs?: boolean
  /** The run that the others are measured against. */
  baseline?: string
  find?: string
  /** The columns of the scatter plot. */
  x?: string
  y?: string
  /** The two runs whose texts are compared. */
  left?: string
  right?: string
}

export const runsMax = 100

export function parseCompareSearch(given: Record<string, unknown>): CompareSearch {
  const listed = Array.isArray(given.keys) ? given.keys : String(given.keys ?? '').split(',')
  const keys = [...new Set(listed.map(String).filter((it) => it !== ''))].slice(0, runsMax)
  const view = views.find((it) => it.name === given.view && it.name !== 'values')?.name as CompareSearch['view']
  const texts = ['baseline', 'find', 'x', 'y', 'left', 'right'] as const
  const rest = Object.fromEntries(texts.flatMap((it) => (given[it] ? [[it, String(given[it])]] : [])))
  return { keys, ...rest, ...(view && { view }), ...(given.differs === true && { differs: true }) }
}
