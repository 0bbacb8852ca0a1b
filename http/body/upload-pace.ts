import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { unavailable } from '../errors.ts'

/**
 * What bounds uploads, in place of a time for the whole request and of a share of the memory: a gigabyte over a slow
 * line takes its time, and is never held as a whole. Instead there are only so many at once, and each has to get on.
 */
export type UploadLimits = {
  /** Under way at once; more are told to come back. */
  uploadsMax: number
  /** Who sends fewer bytes in `everyMs`, while they are waited for, is cut off. */
  bytesMin: number
  everyMs: number
  /** How long the rest of an upload may take that was answered before it was whole. */
  afterAnswerMs: number
}

/** 1 KiB a second is less than any line gives that an upload ever comes through. */
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
    /** Lets an upload in whose caller is known and whose body has not been read. */
    admit({ raw }: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) {
      if (underWay >= uploadsMax) return done(unavailable('This process has too many uploads under way.'))
      const { socket } = raw
      let bytesSeen = socket.bytesRead
      const pace = setInterval(() => {
        // Bytes that are there and not taken: then it is the store that is slow.
        const isWaiting = !raw.complete && raw.readableLength === 0
        if (isWaiting && socket.bytesRead - bytesSeen < bytesMin) socket.destroy()
        bytesSeen = socket.bytesRead
      }, everyMs)
      underWay++
      uploading.add(socket)
      reply.raw.once('close', () => {
        underWay--
        clearInterval(pace)
        uploading.delete(socket)
        if (raw.complete) return
        const end = setTimeout(() => socket.destroy(), afterAnswerMs)
        raw.once('close', () => clearTimeout(end))
      })
      done()
    },

    /** True while an upload comes in on this connection: the time that other requests have does not count for it. */
    isUploading: (socket: Socket) => uploading.has(socket),
  }
}

export type UploadPace = ReturnType<typeof createUploadPace>
