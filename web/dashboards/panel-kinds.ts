import type { Content, FeatureView, LabelView, Metric, Panel } from '../api/dashboards.ts'
import type { Column, KnownColumn } from '../api/runs.ts'
import { toPagePath } from '../kit/page-link.tsx'

/** The columns of the grid. */
export const columnsMax = 12
export const widthMin = 2
export const heightMax = 8

export type Kind = Content['kind']

/** What each kind of panel is called, and how large it is at first. */
export const kinds: Record<Kind, { label: string; about: string; width: number; height: number }> = {
  chart: { label: 'Chart', about: 'a metric of many runs', width: 6, height: 3 },
  value: { label: 'Best value', about: 'of a metric, and its run', width: 3, height: 1 },
  runs: { label: 'Table of runs', about: 'chosen columns, sorted', width: 12, height: 3 },
  media: { label: 'Media', about: 'images, audio, tables by step', width: 6, height: 4 },
  file: { label: 'File', about: 'an image or a text of a run', width: 4, height: 3 },
  model: { label: 'Model in production', about: 'events, verdict, alerts', width: 4, height: 2 },
  drift: { label: 'Heat map', about: 'drift of all features', width: 8, height: 4 },
  feature: { label: 'Feature', about: 'against the reference, or over time', width: 6, height: 2 },
  labels: { label: 'Labels', about: 'quality, coverage and delay', width: 6, height: 2 },
  firings: { label: 'Alerts', about: 'what fired, and who was told', width: 6, height: 3 },
  artifact: { label: 'Artifact', about: 'its last versions', width: 6, height: 2 },
  versions: { label: 'Registered model', about: 'its last versions and stages', width: 6, height: 2 },
  text: { label: 'Text', about: 'in Markdown', width: 6, height: 2 },
}

/** The kinds as a menu offers them. */
export const kindGroups: { label?: string; kinds: Kind[] }[] = [
  { label: 'Runs', kinds: ['chart', 'value', 'runs', 'media', 'file'] },
  { label: 'Production', kinds: ['model', 'drift', 'feature', 'labels', 'firings'] },
  { label: 'Artifacts and models', kinds: ['artifact', 'versions'] },
  { kinds: ['text'] },
]

export function toPanel(content: Content, title = ''): Panel {
  const { width, height } = kinds[content.kind]
  // Not `randomUUID`, which browsers lend only to pages under TLS or on this machine.
  const id = Date.now().toString(36) + Math.random().toString(36).slice(2, 8)
  return { id, title, width, height, content }
}

export const toMetricName = ({ name, context }: Metric) => (context ? `${name} (${context})` : name)

export const featureWords: Record<FeatureView, string> = {
  values: 'values against the reference',
  distance: 'distance from the reference',
  quantiles: 'quantiles',
  missing: 'missing values',
}
export const labelWords: Record<LabelView, string> = { quality: 'quality', coverage: 'coverage', delay: 'delay' }

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
    case 'media':
      return content.media.name
    case 'file':
      return content.fileName
    case 'model':
      return content.modelName
    case 'drift':
      return `Drift of ${toModelName(content)}`
    case 'feature':
      return `${content.feature} of ${toModelName(content)}: ${featureWords[content.show]}`
    case 'labels':
      return `Labels of ${toModelName(content)}: ${labelWords[content.show]}`
    case 'firings':
      return content.modelName === undefined ? 'Alerts of the project' : `Alerts of ${content.modelName}`
    case 'artifact':
      return content.artifactName
    case 'versions':
      return `Versions of ${content.modelName}`
    default:
      return ''
  }
}

const toModelName = ({ modelName, modelVersion }: { modelName: string; modelVersion?: string }) =>
  modelVersion === undefined ? modelName : `${modelName} ${modelVersion}`

/** The page that has more of what a panel shows; undefined where its content has the links. */
export function toPath(content: Content, workspace: string, project: string): string | undefined {
  const root = toPagePath(workspace)
  const inProduction = (name: string, search: Record<string, string | undefined>) => {
    const present = Object.entries(search).filter(([, it]) => it !== undefined) as [string, string][]
    return `${root}/-/production/${toPagePath(name)}?${new URLSearchParams(present)}`
  }
  const scope = ({ modelVersion: version, segment, windows, interval }: Extract<Content, { windows: number }>) => ({
    ...{ version: version && JSON.stringify(version), segment: segment && JSON.stringify(segment) },
    ...{ windows: String(windows), interval: String(interval) },
  })
  switch (content.kind) {
    case 'model':
      return inProduction(content.modelName, {})
    case 'drift':
      return inProduction(content.modelName, scope(content))
    case 'feature':
      return inProduction(content.modelName, {
        ...scope(content),
        feature: JSON.stringify(content.feature),
        part: content.part,
      })
    case 'labels':
      return inProduction(content.modelName, { tab: 'labels', ...scope(content) })
    case 'firings':
      return content.modelName === undefined
        ? `${toPagePath(workspace, project)}/-/alerts`
        : inProduction(content.modelName, { tab: 'alerts' })
    case 'artifact':
      return `${root}/-/artifacts/${toPagePath(content.artifactName)}`
    case 'versions':
      return `${root}/-/models/${toPagePath(content.modelName)}`
    default:
      return undefined
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
