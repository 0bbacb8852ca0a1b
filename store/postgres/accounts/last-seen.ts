import { createWriteBehindBuffer } from '../../../runtime/write-behind-buffer.ts'
import type { Activity } from './users.ts'

type Settings = {
  /** Stores the activity of many users in one statement. */
  write(activities: Activity[]): Promise<void>
  everyMs: number
  onError(error: unknown): void
}

/** A write-behind buffer of when users last called. */
export function createLastSeen(settings: Settings) {
  const activities = createWriteBehindBuffer<Activity>({
    ...settings,
    idOf: (it) => it.userId,
    merge(known, { atMs }) {
      known.atMs = Math.max(known.atMs, atMs)
    },
  })
  return {
    /** The user called. */
    active(userId: string, atMs: number) {
      activities.add({ userId, atMs })
    },

    /** Writes what is left, once. */
    close: activities.close,
  }
}
