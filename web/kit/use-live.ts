import { useEffect, useRef, useSyncExternalStore } from 'react'
import { isLive, onLive, watchRuns } from '../api/live.ts'

/** The pause after a read, in durations of the read: a page that reads much reads seldom. */
const pausePerRead = 4
const pauseMsLeast = 250

/**
 * Reads again when one of these runs has something newer: at once, or as soon as the pause after the last read is over.
 *
 * @param keys while it is looked at; none otherwise
 * @returns whether newer things are told; if not, the page has to ask
 */
export function useLive(keys: string[], readAgain: () => Promise<unknown>): boolean {
  const again = useRef(readAgain)
  again.current = readAgain
  const joined = keys.join()
  useEffect(() => {
    if (joined === '') return
    let isAsked = false
    let isBusy = false
    let isGone = false
    async function read() {
      isAsked = true
      if (isBusy) return
      isBusy = true
      while (isAsked && !isGone) {
        isAsked = false
        const beganAt = performance.now()
        await again.current().catch(() => undefined)
        const pauseMs = Math.max(pauseMsLeast, pausePerRead * (performance.now() - beganAt))
        await new Promise((done) => setTimeout(done, pauseMs))
      }
      isBusy = false
    }
    const leave = watchRuns(joined.split(','), () => void read())
    return () => {
      isGone = true
      leave()
    }
  }, [joined])
  return useSyncExternalStore(onLive, isLive)
}
