import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { unavailable } from '../errors.ts'

/**
 * Limits uploads by their number and their pace. Neither a time limit for the whole request nor a share of the memory would
 * fit: a gigabyte over a slow line takes long, and is never in memory as a whole.
 */
export type UploadLimits = {
  /** How many at a time; others get 503. */
  uploadsMax: number
  /** A caller that sends fewer bytes in `everyMs`, while the service waits for them, is disconnected. */
  bytesMin: number
  everyMs: number
  /** How long the rest of an upload may take after its answer. */
  afterAnswerMs: number
}

/** 1 KiB/s: no upload gets anywhere over a slower line. */
export const defaultUploadLimits: UploadLimits = {
  uploadsMax: 64,
  bytesMin: 30 * 1024,
  everyMs: 30_000,
  afterAnswerMs: 60_000,
}

export function createUploadPace({ uploadsMax, bytesMin, everyMs, afterAnswerMs }: UploadLimits) {
  const uploading = new WeakSet<Socket>()
  let underWay = 0

  return {
    /** Admits an upload, or rejects it, after the key check and before its body is read. */
    admit({ raw }: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) {
      if (underWay >= uploadsMax) return done(unavailable('This process has too many uploads under way.'))
      const { socket } = raw
      let bytesSeen = socket.bytesRead
      const pace = setInterval(() => {
        // Unread bytes in the buffer mean that the store is slow, not the caller.
        const isWaiting = !raw.complete && raw.readableLength === 0
        if (isWaiting && socket.bytesRead - bytesSeen < bytesMin) socket.destroy()
        bytesSeen = socket.bytesRead
      }, everyMs)
      underWay++
      uploading.add(socket)
      reply.raw.once('close', () => {
        underWay--
        clearInterval(pace)
        if (raw.complete) return void uploading.delete(socket)
        // Its rest still arrives, and the connection is that of an upload until then.
        const end = setTimeout(() => socket.destroy(), afterAnswerMs)
        raw.once('close', () => {
          clearTimeout(end)
          uploading.delete(socket)
        })
      })
      done()
    },

    /** True until all of an upload has arrived on this connection: the time limit of other requests does not apply to it. */
    isUploading: (socket: Socket) => uploading.has(socket),
  }
}

export type UploadPace = ReturnType<typeof createUploadPace>
