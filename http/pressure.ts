import { getHeapStatistics } from 'node:v8'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { bodyBytesMaxDefault } from './body/body.ts'
import { unavailable } from './errors.ts'

/**
 * When a request is refused so that the memory of this process stays out of danger: when the bodies under way would be
 * too large together. It is decided on the headers, so what is refused has cost no memory yet. All else that a process
 * holds is bounded where it is held. The size of the heap itself tells nothing: without new requests nothing is
 * collected, and a process that was full once would stay so.
 */
export type PressureLimits = {
  /** Bytes of the larger bodies under way; a single one is always let in. */
  bodyBytesMax: number
}

/** A parsed body takes some ten times its bytes, and half of the heap is for other things. */
const heapShareForBodies = 1 / 24
/** Smaller bodies are bounded by the number of connections, and are most of what comes: they are not counted. */
export const smallBodyBytes = 16 * 1024
/** What a gzip body is reckoned to become; it cannot become more than its route takes. */
const gzipRatio = 8
/** And one whose length is not told: this share of what its route takes. */
const untoldShare = 1 / 4

export const defaultPressureLimits: PressureLimits = {
  bodyBytesMax: getHeapStatistics().heap_size_limit * heapShareForBodies,
}

/** Room for the larger bodies that are under way, by whichever way they come. */
export type BodyRoom = {
  /** Returns what is to be called once the body is gone again, or undefined when there is no room for it. */
  take(bytes: number): (() => void) | undefined
}

export function createBodyRoom({ bodyBytesMax }: PressureLimits): BodyRoom {
  let bodyBytes = 0
  return {
    take(bytes) {
      if (bodyBytes > 0 && bodyBytes + bytes > bodyBytesMax) return undefined
      bodyBytes += bytes
      return () => {
        bodyBytes -= bytes
      }
    },
  }
}

/** A check for requests whose caller is known and whose body has not been read. */
export function createPressureCheck(room: BodyRoom) {
  return function checkPressure(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) {
    const bytes = reckonBody(request)
    if (bytes <= smallBodyBytes) return done()
    const giveBack = room.take(bytes)
    if (!giveBack) return done(unavailable('This process has too many large requests under way.'))
    // Also when the connection breaks.
    reply.raw.once('close', giveBack)
    done()
  }
}

export type PressureCheck = ReturnType<typeof createPressureCheck>

/** What a body may come to take. */
function reckonBody({ headers, routeOptions, method }: FastifyRequest): number {
  if (method === 'GET' || method === 'HEAD') return 0
  const bytesMax = routeOptions.bodyLimit ?? bodyBytesMaxDefault
  const told = headers['content-length']
  if (told === undefined) return headers['transfer-encoding'] === undefined ? 0 : bytesMax * untoldShare
  return Math.min(bytesMax, Number(told) * (headers['content-encoding'] === undefined ? 1 : gzipRatio))
}
