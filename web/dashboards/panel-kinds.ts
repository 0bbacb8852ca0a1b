import type { Content, Metric, Panel } from '../api/dashboards.ts'
import type { Column, KnownColumn } from '../api/runs.ts'

/** The columns of the grid. */
export const columnsMax = 12
export const widthMin = 2
export const heightMax = 8

type Kind = Content['kind']

/** What each kind of panel is called, and how large it is at first. */
export const kinds: Record<Kind, { label: string; about: string; width: number; height: number }> = {
  chart: { label: 'Chart', about: 'a metric over the runs of a query or view', width: 6, height: 3 },
  value: { label: 'Best value', about: 'the best value of a metric, and the run that has it', width: 3, height: 1 },
  runs: { label: 'Table of runs', about: 'chosen columns, sorted', width: 12, height: 3 },
  file: { label: 'File', about: 'an image or a text of a run', width: 4, height: 3 },
  text: { label: 'Text', about: 'in Markdown', width: 6, height: 2 },
}

export function toPanel(content: Content, title = ''): Panel {
  const { width, height } = kinds[content.kind]
  // Not `randomUUID`, which browsers lend only to pages under TLS or on this machine.
  const id = Date.now().toString(36) + Math.random().toString(36).slice(2, 8)
  return { id, title, width, height, content }
}

export const toMetricName = ({ name, context }: Metric) => (context ? `${name} (${context})` : name)

/** What stands above a panel that has no title of its own. */
export function toTitle({ title, content }: Panel): string {
  if (title !== '') return title
  switch (content.kind) {
    case 'chart':
      return toMetricName(content.metric)
    case 'value':
      return `${content.of === 'min' ? 'Least' : 'Highest'} ${toMetricName(content.metric)}`
    case 'runs':
      return 'Runs'
    case 'file':
      return content.fileName
    case 'text':
      return ''
  }
}

/** The metrics of a project, each once, without those of machines. */
export function toMetrics(known: KnownColumn[]): Metric[] {
  const found = new Map<string, Metric>()
  for (const column of known) {
    if (column.source !== 'metric' || column.name.startsWith('sys.')) continue
    const metric = { name: column.name, ...(column.context && { context: column.context }) }
    found.set(toMetricName(metric), metric)
  }
  return [...found.values()]
}

export const toColumn = (metric: Metric, of: 'last' | 'min' | 'max' = 'last'): Column => ({
  source: 'metric',
  ...metric,
  of,
})

const firstCharts = 4

/** What a new dashboard begins with: of the first metrics the best value and a chart, and the newest runs. */
export function toFirstPanels(known: KnownColumn[]): Panel[] {
  const metrics = toMetrics(known)
  const shown = metrics.slice(0, firstCharts)
  const parameters = known.filter((it) => it.source === 'parameter').slice(0, 3)
  const toBest = ({ name }: Metric) => (/loss|error/i.test(name) ? ('min' as const) : ('max' as const))
  return [
    ...shown.map((metric) => toPanel({ kind: 'value', metric, of: toBest(metric) })),
    ...shown.map((metric) => toPanel({ kind: 'chart', metric, top: 10 })),
    toPanel({
      kind: 'runs',
      columns: [
        { source: 'metadata', name: 'state' },
        { source: 'metadata', name: 'startTime' },
        ...shown.map((it) => toColumn(it)),
        ...parameters.map(({ type, ...column }) => column as Column),
      ],
      sort: { column: { source: 'metadata', name: 'startTime' }, order: 'desc' },
      top: 10,
    }),
  ]
}
