import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import { type Dashboard, dashboard, readDashboard, saveDashboard } from '../api/dashboards.ts'
import { ApiError } from '../api/http.ts'

type Content = Pick<Dashboard, 'name' | 'panels'>
/** Makes a change of a dashboard out of what it is now, which may be newer than what was on the page. Throws when it cannot. */
export type Change = (now: Content) => Content

/** Others change it, too. */
const againMs = 10_000
const triesMax = 5

/**
 * A dashboard, and how to change it. A change is seen at once and saved; when somebody has saved another one meanwhile, it is made
 * again from theirs, so that neither is lost.
 */
export function useDashboard(projectId: string | undefined, id: string) {
  const client = useQueryClient()
  /** Changes that are not saved yet. */
  const pending = useRef(0)
  const query = useQuery({
    ...dashboard(projectId ?? '', id),
    enabled: projectId !== undefined,
    refetchInterval: () => (pending.current === 0 ? againMs : false),
  })
  const { queryKey } = dashboard(projectId ?? '', id)
  const saving = useRef<Promise<unknown>>(Promise.resolve())
  /** As the service has it. */
  const stored = useRef<Dashboard>(undefined)

  async function save(change: Change): Promise<void> {
    for (let tries = 1; ; tries++) {
      const now = stored.current
      if (!now) throw new Error('The dashboard was deleted meanwhile.')
      try {
        stored.current = await saveDashboard(projectId ?? '', { ...now, ...change(now) })
        return
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 409 || tries >= triesMax) throw error
        stored.current = (await readDashboard(projectId ?? '', id)) ?? undefined
      }
    }
  }

  /** Resolves when it is saved; rejects with the reason, and the page shows what the service has. */
  async function change(work: Change): Promise<void> {
    await client.cancelQueries({ queryKey, exact: true })
    const shown = client.getQueryData(queryKey)
    if (!shown) throw new Error('The dashboard is not there yet.')
    client.setQueryData(queryKey, { ...shown, ...work(shown) })
    if (pending.current++ === 0) stored.current = shown
    const mine = saving.current.then(() => save(work))
    saving.current = mine.catch(() => undefined)
    try {
      await mine
    } finally {
      // What the service has is shown once nothing is on its way.
      if (--pending.current === 0) {
        if (stored.current) client.setQueryData(queryKey, stored.current)
        void client.invalidateQueries({ queryKey: ['dashboards', projectId] })
      }
    }
  }
  return { ...query, change }
}
