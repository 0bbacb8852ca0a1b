import { createWriteBehindBuffer } from '../../../runtime/write-behind-buffer.ts'

/** When a user last called, or a key was last used. */
export type Activity = { id: string; atMs: number }

type Settings = {
  /** Stores the activity of many in one statement. */
  write(activities: Activity[]): Promise<void>
  everyMs: number
  onError(error: unknown): void
}

/** A write-behind buffer of when users last called, or keys were last used. */
export function createLastSeen(settings: Settings) {
  const activities = createWriteBehindBuffer<Activity>({
    ...settings,
    idOf: (it) => it.id,
    merge(known, { atMs }) {
      known.atMs = Math.max(known.atMs, atMs)
    },
  })
  return {
    /** The user called, or the key was used. */
    active(id: string, atMs: number) {
      activities.add({ id, atMs })
    },

    /** Writes what is left, once. */
    close: activities.close,
  }
}
