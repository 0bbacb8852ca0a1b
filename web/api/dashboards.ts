import { queryOptions } from '@tanstack/react-query'
import type { MediaKind } from './artifacts/media.ts'
import { post, read } from './http.ts'
import type { Column } from './runs.ts'

/** Which runs a panel shows: those of a named view, narrowed by a query; all runs of the project when both are absent. */
export type RunChoice = { view?: string; query?: string }

export type Metric = { name: string; context?: string }

/** Which events of a model in production a panel is about; of all versions and segments when absent. */
export type ModelChoice = { modelName: string; modelVersion?: string; segment?: string }

/** The last windows until the last event, so many of so many ms. */
export type Windows = { windows: number; interval: number }

/** What of a feature a panel shows. `values` are those of the last window with a verdict, against the reference. */
export const featureViews = ['values', 'distance', 'quantiles', 'missing'] as const
export type FeatureView = (typeof featureViews)[number]

/** What of the labels of a model a panel shows. */
export const labelViews = ['quality', 'coverage', 'delay'] as const
export type LabelView = (typeof labelViews)[number]

/** What a panel shows. */
export type Content =
  | ({ kind: 'chart'; metric: Metric; top: number; charts?: Record<string, unknown> } & RunChoice)
  | ({ kind: 'runs'; columns: Column[]; sort?: { column: Column; order: 'asc' | 'desc' }; top: number } & RunChoice)
  | { kind: 'value'; metric: Metric; of: 'min' | 'max'; query?: string }
  | { kind: 'file'; experimentKey: string; fileName: string }
  | ({ kind: 'media'; media: { kind: MediaKind; name: string }; top: number } & RunChoice)
  | { kind: 'model'; modelName: string }
  | ({ kind: 'drift' } & ModelChoice & Windows)
  | ({ kind: 'feature'; feature: string; part?: 'prediction'; show: FeatureView } & ModelChoice & Windows)
  | ({ kind: 'labels'; show: LabelView } & ModelChoice & Windows)
  /** What the rules on a model found; without one, those on the runs of the project. */
  | { kind: 'firings'; modelName?: string }
  | { kind: 'artifact'; artifactName: string }
  | { kind: 'versions'; modelName: string }
  | { kind: 'text'; text: string }

/** What a panel of one kind shows. */
export type ContentOf<Kind extends Content['kind']> = Extract<Content, { kind: Kind }>

/** A panel in the grid, in the order of reading. */
export type Panel = {
  id: string
  /** Empty: as its content is called. */
  title: string
  /** In columns of twelve. */
  width: number
  /** In rows of the grid. */
  height: number
  content: Content
}

export type Dashboard = {
  id: string
  name: string
  panels: Panel[]
  createdBy: string
  /** Milliseconds since the Unix epoch; grows with each save, so it also names what was saved. */
  lastUpdate: number
  /** The one that the project shows first. */
  isDefault: boolean
}

type StoredView = {
  templateId: string
  templateName: string
  createdBy: string
  lastUpdate: number
  projectDefault: boolean
  v3: unknown
}

/** The dashboards of a project by name. They are kept as views, among which other clients and the table of runs have theirs. */
export const dashboards = (projectId: string) =>
  queryOptions({
    queryKey: ['dashboards', projectId],
    queryFn: async ({ signal }) =>
      (await read<{ views: StoredView[] }>('/views/get-all', { projectId }, { signal })).views.flatMap(toDashboard),
  })

/** Null: the project has none of this id. */
export const dashboard = (projectId: string, id: string) =>
  queryOptions({
    queryKey: ['dashboards', projectId, id],
    queryFn: ({ signal }) => readDashboard(projectId, id, signal),
  })

export async function readDashboard(projectId: string, id: string, signal?: AbortSignal): Promise<Dashboard | null> {
  const { views } = await read<{ views: StoredView[] }>('/views/get-all', { projectId, templateId: id }, { signal })
  return views.flatMap(toDashboard)[0] ?? null
}

function toDashboard(it: StoredView): Dashboard[] {
  const panels = (it.v3 as { dashboard?: { panels?: unknown } } | null)?.dashboard?.panels
  if (!Array.isArray(panels)) return []
  return [
    {
      id: it.templateId,
      name: it.templateName,
      panels: panels as Panel[],
      createdBy: it.createdBy,
      lastUpdate: it.lastUpdate,
      isDefault: it.projectDefault,
    },
  ]
}

/**
 * Makes a dashboard, or replaces the one of this id. With `lastUpdate` an `ApiError` of status 409 says that somebody has saved
 * it since.
 */
export async function saveDashboard(
  projectId: string,
  it: Pick<Dashboard, 'name' | 'panels'> & Partial<Pick<Dashboard, 'id' | 'lastUpdate'>>,
): Promise<Dashboard> {
  const saved = await post<StoredView>('/write/views/upsert', {
    projectId,
    templateId: it.id,
    templateName: it.name,
    ifLastUpdate: it.lastUpdate,
    v3: { dashboard: { panels: it.panels } },
  })
  return toDashboard(saved)[0] as Dashboard
}

export const deleteDashboard = (projectId: string, templateId: string) =>
  post('/write/views/delete', { projectId, templateId })

/** Makes a dashboard the one that the project shows first. */
export const setDefaultDashboard = (projectId: string, templateId: string) =>
  post('/write/dashboard-template/set-default', { projectId, templateId })
