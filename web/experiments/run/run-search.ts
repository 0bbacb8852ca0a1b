/** The state of the page of a run, as its URL keeps it. */

export const tabs = [
  { name: 'overview', label: 'Overview' },
  { name: 'charts', label: 'Charts' },
  { name: 'media', label: 'Media' },
  { name: 'system', label: 'System' },
  { name: 'output', label: 'Output' },
  { name: 'files', label: 'Files' },
  { name: 'lineage', label: 'Lineage' },
  { name: 'code', label: 'Code' },
  { name: 'notes', label: 'Notes' },
  { name: 'graph', label: 'Graph' },
] as const

export type Tab = (typeof tabs)[number]['name']

export type RunSearch = {
  tab?: Exclude<Tab, 'overview'>
  /** Words to find: in the values of the overview, or in the lines of the output. */
  find?: string
  /** Only lines of stderr. */
  stderr?: true
  /** The asset that is shown. */
  file?: string
  /** `false`: the end of live output is not followed. */
  follow?: boolean
  charts?: Record<string, unknown>
  /** What of the media is shown. */
  media?: Record<string, unknown>
  /** The lineage is a list. */
  list?: true
  /** How the charts of the machine look. */
  system?: Record<string, unknown>
}

export function parseRunSearch(given: Record<string, unknown>): RunSearch {
  const tab = tabs.find((it) => it.name === given.tab && it.name !== 'overview')?.name as RunSearch['tab']
  const { find, file, charts, media, system } = given
  return {
    ...(tab && { tab }),
    ...(find !== undefined && find !== '' && { find: String(find) }),
    ...(file !== undefined && { file: String(file) }),
    ...(given.stderr === true && { stderr: true as const }),
    ...(given.follow === false && { follow: false }),
    ...(given.list === true && { list: true as const }),
    ...(typeof media === 'object' && media !== null && { media: media as Record<string, unknown> }),
    ...(typeof charts === 'object' && charts !== null && { charts: charts as Record<string, unknown> }),
    ...(typeof system === 'object' && system !== null && { system: system as Record<string, unknown> }),
  }
}
