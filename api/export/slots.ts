import type { ServerResponse } from 'node:http'
import { HttpError } from '../../http/errors.ts'
import type { Tenants } from '../../throttle/tenants.ts'

/**
 * An export reads all of a project, so a user has few at a time, and a tenant, too; in one process, as every api has its own
 * count.
 */
export function createExportSlots(perUserMax: number, tenants: Pick<Tenants, 'hold'>) {
  const taken = new Map<string, number>()

  return {
    /**
     * Takes a slot until the answer is sent or its connection is closed, which aborts the signal.
     *
     * Call it when the workspace has been looked up.
     *
     * @throws HttpError `throttled`, Throttled
     */
    async take(userId: string, answer: ServerResponse): Promise<AbortSignal> {
      const count = taken.get(userId) ?? 0
      if (count >= perUserMax) {
        throw new HttpError(
          'throttled',
          `Another export of this user is under way: ${perUserMax} at a time. Wait until it has ended.`,
          { headers: { 'retry-after': String(retryAfterSeconds) } },
        )
      }
      taken.set(userId, count + 1)
      const giveBack = () => {
        const left = (taken.get(userId) ?? 1) - 1
        if (left === 0) taken.delete(userId)
        else taken.set(userId, left)
      }
      const release = await tenants.hold('exportsMax').catch((error: unknown) => {
        giveBack()
        throw error
      })
      const stop = new AbortController()
      const end = () => {
        giveBack()
        release()
        stop.abort()
      }
      // A caller that left during the look-ups is never heard of again.
      if (answer.destroyed) end()
      else answer.once('close', end)
      return stop.signal
    },
  }
}

export type ExportSlots = ReturnType<typeof createExportSlots>

const retryAfterSeconds = 2
