import { createPlaces, NoPlace, type Places, type Wait } from './places.ts'

type Settings = {
  /** How long a query may wait for its turn. */
  waitMsMax: number
  /** How many queries of heavy lanes run at once while other lanes have queries too. */
  heavyMax(): number
}

/** The place of a query. */
export type Turn = {
  /** 1 goes before 2. */
  priority: number
  /** Whether it holds one of the few places of heavy lanes. */
  isHeavy: boolean
  /** Gives the place back. */
  end(): void
}

/** `load` is how many ran at once lately: an average whose weights fall with age. */
type Lane = { places: Places; load: number; changedAtMs: number }

const loadForMs = { rising: 2_000, falling: 10_000 }
/** A lane with more is heavy. One query after the other has up to 1. */
const loadMax = 1.5
/**
 * After longer heavy work, and after any of a lane with more load, its place is empty for as long as that took. Both cores of a small
 * machine were busy all the time otherwise. A page of charts has many short queries, but for half a second only.
 */
const rest = { afterMs: 50, load: 4, msMax: 3_000 }
/** Further queries at once are heavy in any lane. */
const lightMax = 2
/** A lane that had no query for so long is in nobody's way, and nobody in its way. */
const activeForMs = 10_000
/** Exports have a lower one still. */
const priorityMax = 8
/** Lanes that are kept for their load. */
const lanesMax = 1_000

/**
 * Lets queries run when it is their turn: those of a lane in order. Of the queries that run, the first of a lane goes before the
 * second ones of all lanes, and so on: ClickHouse pauses those of a lower priority.
 *
 * A lane that keeps several running is heavy, and has no first ones. While other lanes have queries too, heavy lanes have few
 * places, which they take in turns, so that cores are left for the others. After a heavy query its place rests.
 */
export function createLanes({ waitMsMax, heavyMax }: Settings) {
  const lanes = new Map<string, Lane>()
  const heavyPlaces = createPlaces()
  /** The lane that had the last query of all that are not heavy, and when another one had one. */
  let last = { id: '', atMs: Number.NEGATIVE_INFINITY, otherAtMs: Number.NEGATIVE_INFINITY }

  /** Takes a place of heavy lanes; what it returns gives it back, once. */
  async function takeHeavyPlace(id: string, wait: Wait): Promise<() => void> {
    await heavyPlaces.take(id, heavyMax(), wait)
    const sinceMs = performance.now()
    let isTaken = true
    return () => {
      if (!isTaken) return
      isTaken = false
      const tookMs = performance.now() - sinceMs
      if (tookMs <= rest.afterMs && (lanes.get(id)?.load ?? 0) <= rest.load) heavyPlaces.release()
      else setTimeout(heavyPlaces.release, Math.min(tookMs, rest.msMax)).unref()
    }
  }

  function open(id: string): Lane {
    const found = lanes.get(id)
    if (found) return found
    if (lanes.size >= lanesMax) {
      for (const [id, { places }] of lanes) if (places.taken() + places.waiting() === 0) lanes.delete(id)
    }
    const lane = { places: createPlaces(), load: 0, changedAtMs: performance.now() }
    lanes.set(id, lane)
    return lane
  }

  /** To be called before the number of places that are taken changes. */
  function age(lane: Lane) {
    const nowMs = performance.now()
    const running = lane.places.taken()
    const weight = Math.exp((lane.changedAtMs - nowMs) / (running > lane.load ? loadForMs.rising : loadForMs.falling))
    lane.load = lane.load * weight + running * (1 - weight)
    lane.changedAtMs = nowMs
  }

  /** Notes a query of a lane, and tells whether others had one lately. */
  function areOthersActive(id: string, isHeavy: boolean): boolean {
    const nowMs = performance.now()
    const otherAtMs = last.id === id ? last.otherAtMs : last.atMs
    if (!isHeavy) last = { id, atMs: nowMs, otherAtMs }
    return nowMs - otherAtMs < activeForMs
  }

  return {
    /**
     * Waits until work of a lane that takes long may go on for a slice of time: at once, unless other lanes have queries too.
     * What it returns ends the slice earlier.
     *
     * @throws the reason of the signal when that is aborted
     */
    async takeSlice(id: string, sliceMs: number, signal: AbortSignal): Promise<() => void> {
      if (!areOthersActive(id, true)) return () => undefined
      const leave = await takeHeavyPlace(id, { untilMs: undefined, signal })
      const timer = setTimeout(leave, sliceMs)
      return () => {
        clearTimeout(timer)
        leave()
      }
    },

    /**
     * Waits for a place in each of these lanes, of which the first is the query's own.
     *
     * @throws NoPlace when too many wait, or it waited for too long; the reason of the signal when that is aborted
     */
    async take(bounds: readonly { id: string; max: number }[], signal: AbortSignal | undefined): Promise<Turn> {
      const wait: Wait = { untilMs: performance.now() + waitMsMax, signal }
      const entered: Lane[] = []
      let leaveHeavyPlace: (() => void) | undefined
      function end() {
        leaveHeavyPlace?.()
        for (const lane of entered) {
          age(lane)
          lane.places.release()
        }
      }
      try {
        let priority = 1
        for (const { id, max } of bounds) {
          const lane = open(id)
          age(lane)
          const running = await lane.places.take(id, max, wait)
          if (entered.length === 0) priority = running
          entered.push(lane)
          if (lane.load > loadMax) priority = Math.max(priority, 2)
        }
        const id = bounds[0]?.id ?? ''
        const isLoaded = (entered[0]?.load ?? 0) > loadMax || priority > lightMax
        if (areOthersActive(id, isLoaded) && isLoaded) {
          leaveHeavyPlace = await takeHeavyPlace(id, wait)
        }
        return { priority: Math.min(priority, priorityMax), isHeavy: leaveHeavyPlace !== undefined, end }
      } catch (error) {
        end()
        if (error instanceof NoPlace) error.laneId = bounds[entered.length]?.id ?? bounds[0]?.id
        throw error
      }
    },

    /** How many queries of a lane run and wait. */
    size(id: string): number {
      const places = lanes.get(id)?.places
      return places ? places.taken() + places.waiting() : 0
    },

    /** Queries that wait for their turn, of all lanes. */
    waiting: () => [...lanes.values()].reduce((sum, { places }) => sum + places.waiting(), heavyPlaces.waiting()),
  }
}
