import type { ServerResponse } from 'node:http'
import { HttpError } from '../../http/errors.ts'

/** An export reads all of a project, so a user has few at a time; in one process, as every api has its own count. */
export function createExportSlots(perUserMax: number) {
  const taken = new Map<string, number>()

  return {
    /**
     * Takes a slot until the answer is sent or its connection is closed, which aborts the signal.
     *
     * @throws HttpError `throttled`
     */
    take(userId: string, answer: ServerResponse): AbortSignal {
      const count = taken.get(userId) ?? 0
      if (count >= perUserMax) {
        throw new HttpError(
          'throttled',
          `Another export of this user is under way: ${perUserMax} at a time. Wait until it has ended.`,
          { headers: { 'retry-after': String(retryAfterSeconds) } },
        )
      }
      const stop = new AbortController()
      // A caller that left during the key check is never heard of again.
      if (answer.destroyed) stop.abort()
      else {
        taken.set(userId, count + 1)
        answer.once('close', () => {
          const left = (taken.get(userId) ?? 1) - 1
          if (left === 0) taken.delete(userId)
          else taken.set(userId, left)
          stop.abort()
        })
      }
      return stop.signal
    },
  }
}

export type ExportSlots = ReturnType<typeof createExportSlots>

const retryAfterSeconds = 2
