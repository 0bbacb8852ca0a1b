import { type Query, type QueryClient, queryOptions } from '@tanstack/react-query'
import { ApiError, baseUrl, call, readAtRoot } from './http.ts'

/** Models in production. Times are in milliseconds since the Unix epoch. */

const root = 'mpm/v2'

export type Verdict = { drifted: boolean | null; driftedFeatures: number; judgedFeatures: number }

export type ListedModel = {
  modelName: string
  /** A reference: it has training events and no others. */
  isDataset: boolean
  events: number
  labels: number
  trainingEvents: number
  lastEventAt: number | null
  /** The events of each of the last 30 days of UTC. */
  volume: number[]
  registered: boolean
  datasetName: string | null
  verdict: (Verdict & { from: number; to: number }) | null
  rules: number
  firing: { alertId: string; name: string; measure: string; windowFrom: number; windowTo: number }[]
}

export const readOverview = (workspaceName: string, page: string | undefined, signal: AbortSignal) =>
  readAtRoot<{ models: ListedModel[]; nextPage: string | null }>(
    `${root}/overview`,
    // Each row reads its own verdict, so that the list is there at once.
    { workspaceName, page, verdict: false },
    { signal },
  )

export type Name = { workspaceName: string; modelName: string }
/** The events that a page is about. `from` and `to` are whole windows. */
export type Scope = Name & { modelVersion?: string; segment?: string }
export type Time = { from?: number; to?: number; interval: number }

const keyOf = (name: Name, ...rest: unknown[]) => ['monitoring', name.workspaceName, name.modelName, ...rest]

export const refreshMonitored = (client: QueryClient, name: Name) =>
  client.invalidateQueries({ queryKey: ['monitoring', name.workspaceName, name.modelName] })

/** A read of a model; the answer stays on the page while a newer one is on its way. */
function read<Answer>(path: string, { workspaceName, modelName, ...asked }: Name & Record<string, unknown>) {
  const name = { workspaceName, modelName }
  const query = { ...name, ...asked } as Record<string, string | number | undefined>
  return queryOptions({
    queryKey: keyOf(name, path, asked),
    queryFn: ({ signal }) => readAtRoot<Answer>(`${root}/${path}`, query, { signal }),
  })
}

export const monitored = (name: Name) =>
  queryOptions({
    queryKey: keyOf(name, 'overview'),
    queryFn: async ({ signal }) =>
      (await readAtRoot<{ models: ListedModel[] }>(`${root}/overview`, { ...name, verdict: false }, { signal }))
        .models[0] ?? null,
  })

export type VersionCounts = { modelVersion: string; events: number; lastTimestamp: number | null }

export const versionsOf = (name: Name) =>
  queryOptions({
    queryKey: keyOf(name, 'versions'),
    queryFn: async ({ signal }) => {
      const { models } = await readAtRoot<{ models: { versions: VersionCounts[] }[] }>(`${root}/models`, name, {
        signal,
      })
      return (models[0]?.versions ?? []).filter((it) => it.events > 0)
    },
  })

/** The models of a workspace that report from production, by name. */
export const modelNames = (workspaceName: string) =>
  queryOptions({
    queryKey: ['monitoring-models', workspaceName, 'names'],
    queryFn: async ({ signal }) => {
      type Page = { models: { modelName: string; versions: VersionCounts[] }[]; nextPage: string | null }
      const names: string[] = []
      let page: string | undefined
      do {
        const found: Page = await readAtRoot<Page>(`${root}/models`, { workspaceName, page }, { signal })
        // A reference has training events and no others.
        names.push(
          ...found.models.filter((it) => it.versions.some(({ events }) => events > 0)).map((it) => it.modelName),
        )
        page = found.nextPage ?? undefined
      } while (page !== undefined)
      return names
    },
  })

const recentMs = 7 * 86_400_000

/** What the events of a model's last week have, by name. */
export const featureNames = (name: Name) =>
  queryOptions({
    queryKey: keyOf(name, 'feature names'),
    queryFn: async ({ client, signal }) => {
      const model = await client.ensureQueryData(monitored(name))
      const from = model?.lastEventAt == null ? undefined : model.lastEventAt - recentMs
      const asked = { ...name, from }
      type Answer = { features: { name: string; part: Part }[] }
      return (await readAtRoot<Answer>(`${root}/features`, asked, { signal })).features
    },
  })

export type Part = 'feature' | 'prediction' | 'label'

export type MapFeature = {
  name: string
  part: Part
  type: 'numeric' | 'categorical'
  /** Each has an entry for each window. */
  drifted: (boolean | null)[]
  value: (number | null)[]
  judgedBy: (string | null)[]
  status: (string | null)[]
  missingShare: (number | null)[]
}
export type MapWindow = Verdict & { from: number; to: number; events: number }
export type DriftMap = {
  reference: { datasetName: string; events: number; ofSegment: boolean | null }
  interval: number
  windows: MapWindow[]
  features: MapFeature[]
}

/** Null for a model without a reference, which is not asked for. */
export const driftMap = (asked: Scope & Time, { hasReference }: { hasReference: boolean }) => {
  const it = read<DriftMap>('drift/map', asked)
  return queryOptions({
    queryKey: [...it.queryKey, hasReference],
    queryFn: async (context): Promise<DriftMap | null> =>
      hasReference ? await (it.queryFn as (context: { signal: AbortSignal }) => Promise<DriftMap>)(context) : null,
  })
}

export type DistributionWindow = {
  from: number
  to: number
  events: number
  values: number
  missing: number
  missingShare: number | null
  counts: number[]
  /** Outside the bins, or of all other categories. */
  rest: number
  min: number | null
  max: number | null
  mean: number | null
  std: number | null
  quantiles: Record<string, number>
  distinct: number | null
}
export type Distribution = {
  type: 'numeric' | 'categorical'
  edges: number[]
  categories: string[]
  windows: DistributionWindow[]
}

export const distribution = (
  asked: Name & { feature: string; part?: Part; edges?: string; bins?: number; kind?: string } & Record<
      string,
      unknown
    >,
) => read<Distribution>('distribution', asked)

export type QualityWindow = {
  from: number
  to: number
  predictions: number
  labelled: number
  accuracy: number | null
  precision: number | null
  recall: number | null
  f1: number | null
  classes: { name: string; correct: number; predicted: number; actual: number }[]
  meanAbsoluteError: number | null
  rootMeanSquaredError: number | null
  bias: number | null
}
export type Quality = {
  label: string | null
  prediction: string | null
  task: 'classification' | 'regression' | null
  windows: QualityWindow[]
}

export const quality = (asked: Scope & Partial<Time>) => read<Quality>('labels/quality', asked)

export type DelayWindow = {
  from: number
  predictions: number
  labelled: number
  coverage: number | null
  delays: Record<string, number>
  longest: number | null
}

export const delays = (asked: Scope & Partial<Time>) => read<{ windows: DelayWindow[] }>('labels/delay', asked)

export type IngestionError = { day: string; call: string; msg: string; sample: string; count: number; lastAt: number }

export const ingestionErrors = (name: Name) => read<{ errors: IngestionError[] }>('errors', name)

export type Scalar = { name: string; type: string; value: string | number | boolean | null }
export type StoredEvent = {
  predictionId: string
  modelVersion: string
  timestamp: number | null
  receivedAt: number | null
  features: Scalar[]
  prediction: Scalar[]
  labels: Scalar[]
  labelsTimestamp: number | null
}

export const event = (name: Name, predictionId: string) => read<StoredEvent>('event', { ...name, predictionId })

export type Filter = {
  part?: 'feature' | 'prediction'
  feature: string
  operator: string
  values?: (string | number | boolean)[]
}
export type Segment = { segmentId: string; name: string; filters: Filter[]; userName: string; createdAt: number }

export const segments = (name: Name) => read<{ segments: Segment[] }>('segments', name)

/** What was read of the events of a segment. */
const ofSegment = (name: Name, segment: string) => ({
  queryKey: keyOf(name),
  predicate: ({ queryKey }: Query) =>
    queryKey.some((it) => typeof it === 'object' && it !== null && 'segment' in it && it.segment === segment),
})

/** Reads the list anew, and nothing else: the other segments and the versions are as they were. */
const refreshSegments = (client: QueryClient, name: Name) =>
  client.invalidateQueries({ queryKey: segments(name).queryKey })

/** How many events meet some filters that are not saved. */
export const countOfFilters = async (name: Name, filters: Filter[], signal: AbortSignal) => {
  const query = { ...name, filters: JSON.stringify(filters) }
  const { counts } = await readAtRoot<{ counts: { events: number }[] }>(`${root}/events/count`, query, { signal })
  return counts.reduce((sum, it) => sum + it.events, 0)
}

/** What was read of an earlier segment of this name is forgotten. */
export async function addSegment(client: QueryClient, name: Name, segment: { name: string; filters: Filter[] }) {
  await call('POST', `${root}/segments`, { ...name, ...segment })
  client.removeQueries(ofSegment(name, segment.name))
  await refreshSegments(client, name)
}

/** Reads of it that are under way end first: they would find it gone. */
export async function deleteSegment(client: QueryClient, name: Name, { segmentId, name: segment }: Segment) {
  const { workspaceName } = name
  await client.cancelQueries(ofSegment(name, segment))
  try {
    await call('DELETE', `${root}/segments/${encodeURIComponent(segmentId)}?${new URLSearchParams({ workspaceName })}`)
  } catch (error) {
    void client.invalidateQueries(ofSegment(name, segment))
    throw error
  }
  await refreshSegments(client, name)
}

export type Rule = {
  alertId: string
  name: string
  measure: string
  comparison: 'above' | 'below'
  threshold: number
  feature: string | null
  part: Part | null
  modelVersion: string | null
  windowMs: number
  graceMs: number
  paused: boolean
  evaluatedTo: number
  problem: string | null
  userName: string
}

export const rules = (name: Name) => read<{ alerts: Rule[] }>('alerts', name)

export type Found = { feature: string | null; part: string | null; value: number }
export type Firing = {
  alertId: string
  name: string
  measure: string
  windowFrom: number
  windowTo: number
  firedAt: number
  found: Found[]
  told: { deliveryId: string; host: string; state: string; at: number | null; status: number | null }[]
}

export const firings = (name: Name) => read<{ firings: Firing[] }>('alerts/firings', { ...name, pageSize: 500 })

export type NewRule = Name & {
  name: string
  measure: string
  feature?: string
  part?: Part
  modelVersion?: string
  threshold?: number
  comparison?: 'above' | 'below'
  windowMs: number
}

export type Preview = {
  comparison: 'above' | 'below'
  threshold: number
  windows: { from: number; to: number; fires: boolean; worst: Found | null; found: Found[] }[]
  problem: string | null
}

export const previewRule = (rule: NewRule, more: { windows: number; to?: number }, signal: AbortSignal) =>
  call<Preview>('POST', `${root}/alerts/preview`, { ...rule, ...more }, { signal })

export const addRule = (rule: NewRule) => call('POST', `${root}/alerts`, rule)

export const changeRule = ({ workspaceName }: Name, alertId: string, change: { paused: boolean }) =>
  call('PUT', `${root}/alerts/${encodeURIComponent(alertId)}`, { workspaceName, ...change })

export const deleteRule = ({ workspaceName }: Name, alertId: string) =>
  call('DELETE', `${root}/alerts/${encodeURIComponent(alertId)}?${new URLSearchParams({ workspaceName })}`)

export type Uploaded = { lines: number; accepted: number; duplicates: number; rejected: number }

/**
 * Uploads a file of CSV as a reference. `onProgress` gets the share that was sent, from 0 to 1.
 *
 * @throws ApiError
 */
export function uploadReference(
  { datasetName, ...name }: Name & { datasetName: string },
  file: File,
  onProgress: (share: number) => void,
): Promise<Uploaded> {
  return new Promise((resolve, reject) => {
    // What fetch sends reports no progress.
    const request = new XMLHttpRequest()
    const query = new URLSearchParams({ ...name, datasetName })
    request.open('POST', new URL(`${root}/dataset/events/csv?${query}`, baseUrl))
    request.setRequestHeader('x-svc-page', '1')
    request.setRequestHeader('content-type', 'text/csv')
    request.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 1 : loaded / total)
    request.onerror = () => reject(new ApiError(0, 'The service does not answer. Is it running, and the network up?'))
    request.onload = () => {
      const last = request.responseText.trim().split('\n').at(-1) ?? ''
      const answer = parse(last)
      if (answer && answer.code === 200) resolve(answer as unknown as Uploaded)
      else reject(new ApiError(request.status, answer?.msg ?? `The service answered ${request.status}.`))
    }
    request.send(file)
  })
}

function parse(line: string): { code?: number; msg?: string } | undefined {
  try {
    return JSON.parse(line) as { code?: number; msg?: string }
  } catch {
    return undefined
  }
}
