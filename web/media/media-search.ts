import { type MediaKind, mediaKinds } from '../api/artifacts/media.ts'

/** What of the media is shown, as the address keeps it. */
export type MediaState = {
  /** The newest until this step; absent: the newest. */
  step?: number
  find?: string
  kind?: MediaKind
  /** Every step of this one name, below its kind: `image/sample.png`. */
  all?: string
}

export function parseMediaState(given: Record<string, unknown>): MediaState {
  const kind = mediaKinds.find((it) => it === given.kind)
  const { step, find, all } = given
  return {
    ...(typeof step === 'number' && Number.isSafeInteger(step) && { step }),
    ...(find !== undefined && find !== '' && { find: String(find) }),
    ...(kind && { kind }),
    ...(all !== undefined && { all: String(all) }),
  }
}

export type MediaSearch = MediaState & { runs: string[] }

/** How many runs are put side by side. */
const runsMax = 100

export function parseMediaSearch(given: Record<string, unknown>): MediaSearch {
  const listed = Array.isArray(given.runs) ? given.runs : String(given.runs ?? '').split(',')
  const runs = [...new Set(listed.map(String).filter((it) => it !== ''))].slice(0, runsMax)
  return { runs, ...parseMediaState(given) }
}
