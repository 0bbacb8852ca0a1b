import { type QueryClient, queryOptions } from '@tanstack/react-query'
import { call, readAtRoot } from './http.ts'

/** Alert rules on the runs of a project. Times are ms since the Unix epoch. */

const root = 'mpm/v2/alerts'

export type Measure = 'metric' | 'metricNaN' | 'metricPoints' | 'runCrashed'

/** All runs of a project, or one of them with the rules of its project. */
export type Watched = { workspaceName: string; projectId: string; experimentKey?: string }

export type TrainingRule = {
  alertId: string
  name: string
  measure: Measure
  comparison: 'above' | 'below'
  threshold: number
  metricName: string | null
  /** Null for a rule on all runs of the project. */
  experimentKey: string | null
  windowMs: number
  paused: boolean
  evaluatedTo: number
  problem: string | null
  userName: string
}

export type TrainingFiring = {
  alertId: string
  name: string
  measure: Measure
  windowFrom: number
  windowTo: number
  firedAt: number
  found: { value: number; experimentKey?: string; experimentName?: string }[]
  told: { deliveryId: string; host: string; state: string; at: number | null; status: number | null }[]
}

const keyOf = ({ projectId }: Watched, ...rest: unknown[]) => ['training-alerts', projectId, ...rest]
const toQuery = ({ workspaceName, projectId, experimentKey }: Watched) => ({
  workspaceName,
  ...(experimentKey === undefined ? { projectId } : { experimentKey }),
})

export const trainingRules = (watched: Watched) =>
  queryOptions({
    queryKey: keyOf(watched, 'rules', watched.experimentKey),
    queryFn: async ({ signal }) =>
      (await readAtRoot<{ alerts: TrainingRule[] }>(root, toQuery(watched), { signal })).alerts,
    refetchInterval: 10_000,
  })

export const trainingFirings = (watched: Watched) =>
  queryOptions({
    queryKey: keyOf(watched, 'firings', watched.experimentKey),
    queryFn: ({ signal }) =>
      readAtRoot<{ firings: TrainingFiring[]; nextPage: string | null }>(
        `${root}/firings`,
        { ...toQuery(watched), pageSize: 100 },
        { signal },
      ),
    refetchInterval: 10_000,
  })

export const refreshTrainingAlerts = (client: QueryClient, watched: Watched) =>
  client.invalidateQueries({ queryKey: keyOf(watched) })

export type NewTrainingRule = {
  workspaceName: string
  projectId?: string
  experimentKey?: string
  name: string
  measure: Measure
  metricName?: string
  comparison?: 'above' | 'below'
  threshold?: number
  windowMs: number
}

export const addTrainingRule = (rule: NewTrainingRule) => call('POST', root, rule)

const ruleAt = (alertId: string) => `${root}/${encodeURIComponent(alertId)}`

export const pauseTrainingRule = ({ workspaceName }: Watched, alertId: string, paused: boolean) =>
  call('PUT', ruleAt(alertId), { workspaceName, paused })

export const deleteTrainingRule = ({ workspaceName }: Watched, alertId: string) =>
  call('DELETE', `${ruleAt(alertId)}?${new URLSearchParams({ workspaceName })}`)
