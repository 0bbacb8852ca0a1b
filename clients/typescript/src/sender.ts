import { createBackoff } from './backoff.ts'
import type { ErrorLog } from './error-log.ts'
import type { Leaving, Platform, Rest } from './platform.ts'
import type { Request } from './request.ts'
import type { Connection } from './settings.ts'
import { pause, setQuietTimeout, type Timer } from './timers.ts'
import { Refused, Unavailable } from './transport.ts'

/** Something to be sent: how much memory it takes, and how it is called in messages. */
export type Entry = { bytes: number; name: string }

/** What goes out in one request. */
export type Shipment<E extends Entry> = {
  entries: E[]
  /** The same each time: it is sent until it succeeds. */
  toRequest(): Request
  /**
   * Tells what the answer says.
   *
   * @param wasRepeated what is there already may be its own
   */
  onAnswer?(answer: unknown, wasRepeated: boolean): void
  /** Smaller ones, in order, when the service cannot bear it; without them it is given up. */
  split?(): Shipment<E>[]
  /** How often it was sent: what was, may have come though nobody said so. */
  sends?: number
}

type Settings<E extends Entry> = {
  connection: Connection
  platform: Pick<Platform, 'onOpen'>
  errors: ErrorLog
  /** Takes from the front of what waits as much as the next request may carry. */
  take(waiting: E[]): Shipment<E>
  /** True when as much waits as one request carries. */
  isFull(waiting: number, waitingBytes: number): boolean
  /** How long an entry may wait for company. */
  waitMs: number
  /** Sends a request, once. */
  perform(request: Request, mayHaveCome: () => boolean): Promise<unknown>
  /** Called when the process ends without `end`; may add what belongs to the end. `failure` says why, if it failed. */
  onExit?(failure: string | undefined): void
  /** Aborts requests when the time of `end` is over. */
  stop: AbortController
}

export type Sender<E extends Entry> = ReturnType<typeof createSender<E>>

const endMsDefault = 30_000
/** The longest pause once the logger is ending: a service that comes back meanwhile must not be missed. */
const hurryMs = 1_000
/** Some of the values of a batch are wrong; all others were stored. */
const someAreWrong = 8000020
/** After so many faults of the service's own in a row a shipment is split, or given up: it may be what the service cannot bear. */
const faultsMax = 5

/**
 * Sends what is added, in its order and one request after the other. What may pass is tried again until it does; what the
 * service refuses is told and given up. Nothing here throws into the caller.
 */
export function createSender<E extends Entry>(settings: Settings<E>) {
  const { connection, errors, take, isFull, waitMs, stop } = settings
  /** What was taken and not settled, the one that is under way first. */
  let shipments: Shipment<E>[] = []
  let waiting: E[] = []
  let waitingBytes = 0
  let bytes = 0
  let count = 0
  let isClosed = false
  let isFlushing = false
  let timer: Timer | undefined
  let running: Promise<void> | undefined
  const backoff = createBackoff()
  /** Cuts the pause short that is under way when the logger is ended. */
  const hurry = new AbortController()
  const state = { toldAway: false, toldThrottled: false, isAway: false }

  function schedule() {
    if (running || (waiting.length === 0 && shipments.length === 0)) return
    if (isClosed || isFlushing || shipments.length > 0 || isFull(waiting.length, waitingBytes)) {
      clearTimeout(timer)
      timer = undefined
      running = run()
        .catch((error) => errors.add(`sending failed: ${toMessage(error)}`))
        .then(() => {
          running = undefined
          if (waiting.length === 0) isFlushing = false
          schedule()
        })
    } else if (timer === undefined) {
      // A program that has nothing else to do does not wait for it: it ends, and what waits is sent at its exit.
      timer = setQuietTimeout(() => {
        timer = undefined
        isFlushing = true
        schedule()
      }, waitMs)
    }
  }

  /** Sends as long as there is something due. */
  async function run() {
    do {
      if (shipments.length === 0) shipments.push(takeNext())
      while (shipments.length > 0) await deliver()
    } while (waiting.length > 0 && (isClosed || isFlushing || isFull(waiting.length, waitingBytes)))
  }

  function takeNext(): Shipment<E> {
    const before = waiting.length
    const shipment = take(waiting)
    if (waiting.length === before) throw new Error('Nothing was taken.')
    for (const it of shipment.entries) waitingBytes -= it.bytes
    return shipment
  }

  /** Sends the first of them until it is settled. */
  async function deliver() {
    const shipment = shipments[0] as Shipment<E>
    let faults = 0
    for (;;) {
      // What is left is told of by who stopped it.
      if (stop.signal.aborted) return giveUp()
      countSend(shipment)
      let answer: unknown
      try {
        answer = await settings.perform(shipment.toRequest(), () => wasRepeated(shipment))
      } catch (error) {
        if (stop.signal.aborted) return giveUp()
        const mayBeDivided = error instanceof Refused && (error.status === 413 || error.code === someAreWrong)
        if (error instanceof Unavailable && error.isFault) faults++
        if (error instanceof Unavailable && faults < faultsMax) {
          await waitAfter(error)
          continue
        }
        const parts = mayBeDivided || faults >= faultsMax ? shipment.split?.() : undefined
        if (parts) {
          shipments.splice(0, 1, ...parts)
          return
        }
        settle()
        const names = shipment.entries.map((it) => it.name)
        errors.add(`the service refused what was logged, which is given up: ${toMessage(error)}`, names, names.length)
        return
      }
      settle()
      recover()
      shipment.onAnswer?.(answer, wasRepeated(shipment))
      return
    }
  }

  async function waitAfter(error: Unavailable) {
    if (error.isThrottled) {
      if (!state.toldThrottled) connection.log.warn(`svc: ${error.message} (what is logged waits meanwhile)`)
      state.toldThrottled = true
    } else {
      const room = `${+(connection.queueBytesMax / 1024 ** 2).toPrecision(4)} MiB`
      if (!state.toldAway) errors.add(`${error.message}. Up to ${room} wait in memory and are sent once it answers.`)
      state.toldAway = true
    }
    state.isAway = true
    const ms = backoff.nextMs(error.retryAfterMs)
    const isToldWhen = error.retryAfterMs !== undefined
    const signal = isToldWhen || isClosed ? stop.signal : AbortSignal.any([stop.signal, hurry.signal])
    // It does not keep the process alive: its exit calls `end`, which does as long as it waits.
    await pause(isClosed && !isToldWhen ? Math.min(ms, hurryMs) : ms, signal)
  }

  function recover() {
    if (state.toldAway) connection.log.warn(`svc: the service at ${connection.url} takes data in again`)
    state.toldAway = state.toldThrottled = state.isAway = false
    backoff.reset()
  }

  function giveUp() {
    shipments = []
  }

  function settle() {
    const { entries } = shipments.shift() as Shipment<E>
    count -= entries.length
    for (const it of entries) bytes -= it.bytes
  }

  async function flush() {
    isFlushing = true
    schedule()
    while (count > 0 && !stop.signal.aborted) {
      schedule()
      await running
    }
  }

  async function end(timeoutMs = endMsDefault) {
    if (isClosed) return
    isClosed = true
    hurry.abort()
    // Keeps the process alive, which the pauses between attempts do not.
    const deadline = setTimeout(() => stop.abort(), timeoutMs)
    await flush()
    clearTimeout(deadline)
    stop.abort()
    if (count > 0) {
      errors.add(
        `${count} entries were not sent within ${timeoutMs} ms and are given up: the service at ${connection.url} did not ` +
          'take them in',
      )
    }
    waiting = []
    forget()
  }

  /** Those under way may have come: they are sent again. */
  function leave({ failure, partBytes, mayReturn = false }: Leaving = {}): Rest {
    if (!mayReturn) {
      if (!isClosed) settings.onExit?.(failure)
      isClosed = true
      stop.abort()
    }
    while (waiting.length > 0) shipments.push(takeNext())
    if (partBytes !== undefined) shipments = shipments.flatMap((it) => toParts(it, partBytes))
    const left = shipments.map((it) => ({ request: it.toRequest(), entries: it.entries.length }))
    for (const it of shipments) countSend(it)
    if (mayReturn) schedule()
    return { connection, left }
  }

  const forget = settings.platform.onOpen({
    flush,
    end,
    leave,
    tell: (message, lost) => errors.add(message, [], lost),
  })

  return {
    /** Adds something to be sent; what does not fit is dropped and told. */
    add(entry: E) {
      if (isClosed) return errors.add('nothing can be logged after end', [entry.name])
      if (bytes + entry.bytes > connection.queueBytesMax) {
        const why = state.isAway ? 'while the service is away' : 'faster than the service takes data in: await flush()'
        return errors.add(`dropped: the queue is full (${connection.queueBytesMax} bytes), ${why}`, [entry.name])
      }
      waiting.push(entry)
      waitingBytes += entry.bytes
      bytes += entry.bytes
      count++
      schedule()
    },
    /** Resolves when everything that was logged is stored, or was refused. */
    flush,
    /** Sends what there is, for so long at most, and closes. What is left then is given up, counted and told. */
    end,
  }
}

function countSend(shipment: { sends?: number }) {
  shipment.sends = (shipment.sends ?? 0) + 1
}

const wasRepeated = ({ sends = 0 }: { sends?: number }) => sends > 1

/** One that may have come stays as it is: the service knows it again by its id. */
function toParts<E extends Entry>(shipment: Shipment<E>, bytesMax: number): Shipment<E>[] {
  const bytes = shipment.entries.reduce((sum, it) => sum + it.bytes, 0)
  if (shipment.sends || bytes <= bytesMax || !shipment.split) return [shipment]
  return shipment.split().flatMap((it) => toParts(it, bytesMax))
}

const toMessage = (error: unknown) => (error instanceof Error ? error.message : String(error))
