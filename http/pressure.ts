import { getHeapStatistics } from 'node:v8'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { bodyBytesMaxDefault } from './body/body.ts'
import { unavailable } from './errors.ts'

/**
 * Limits the memory that request bodies take together. A request is rejected by its headers, before its body takes memory.
 * Everything else that a process keeps has its own limit. The size of the heap is no use as a limit: without new requests
 * nothing is collected, so a process that was full once would reject everything from then on.
 */
export type PressureLimits = {
  /** Bytes of all larger bodies at a time; a single body is always admitted. */
  bodyBytesMax: number
}

/** A parsed body takes some ten times its bytes, and half of the heap is needed for other things. */
const heapShareForBodies = 1 / 24
/** Smaller bodies are not counted: most bodies are small, and the number of connections limits them. */
export const smallBodyBytes = 16 * 1024
/** The assumed ratio of a gzip body; the limit of its route caps the result. */
const gzipRatio = 8
/** The assumed size of a body without Content-Length, as a share of the limit of its route. */
const unknownLengthShare = 1 / 4

export const defaultPressureLimits: PressureLimits = {
  bodyBytesMax: getHeapStatistics().heap_size_limit * heapShareForBodies,
}

/** The memory for larger bodies, shared by the fast path and Node's server. */
export type BodyRoom = {
  /** Reserves memory for a body and returns a function that releases it, or undefined when there is no room. */
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

/** Creates a check that runs after the key check and before the body is read. */
export function createPressureCheck(room: BodyRoom) {
  return function checkPressure(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) {
    const bytes = estimateBody(request)
    if (bytes <= smallBodyBytes) return done()
    const release = room.take(bytes)
    if (!release) return done(unavailable('This process has too many large requests under way.'))
    // Also when the connection breaks.
    reply.raw.once('close', release)
    done()
  }
}

export type PressureCheck = ReturnType<typeof createPressureCheck>

/** Estimates the bytes of a body after decompression. */
function estimateBody({ headers, routeOptions, method }: FastifyRequest): number {
  if (method === 'GET' || method === 'HEAD') return 0
  const bytesMax = routeOptions.bodyLimit ?? bodyBytesMaxDefault
  const length = headers['content-length']
  if (length === undefined) return headers['transfer-encoding'] === undefined ? 0 : bytesMax * unknownLengthShare
  return Math.min(bytesMax, Number(length) * (headers['content-encoding'] === undefined ? 1 : gzipRatio))
}
