import { queryOptions } from '@tanstack/react-query'
import { post, read } from './http.ts'

/** Something that happened since the last visit, or shortly before. Times are ms since the Unix epoch. */
export type Notification = {
  kind: 'finished' | 'crashed' | 'lost' | 'alert'
  at: number
  isNew: boolean
  workspaceName: string
  projectName: string | null
  experimentKey: string | null
  experimentName: string | null
  modelName: string | null
  alertId: string | null
  alertName: string | null
  /** How many times the alert fired lately, the last time then. */
  times: number
  error: string | null
}

export const notifications = queryOptions({
  queryKey: ['notifications'],
  queryFn: async ({ signal }) =>
    (await read<{ notifications: Notification[] }>('/account/notifications', {}, { signal })).notifications,
  refetchInterval: 60_000,
  staleTime: 30_000,
})

export const setSeen = (seenTo: number) => post('/account/notifications/seen', { seenTo })
