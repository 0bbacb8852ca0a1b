import { hash, randomInt } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { HttpError } from '../http/errors.ts'

/** The first part of a row's identity: 128 bits that belong to one request. The second part is its index in the request. */
export type RequestId = { high: bigint; low: number | bigint }

/** What all rows of one request share. */
export type Origin = { experimentId: bigint; identity: RequestId; receivedMs: number }

const idempotencyKeyCharactersMax = 200
const topBit = 2n ** 63n
const low63Bits = topBit - 1n

/** Whether a client named the request. */
export const isKeyed = ({ high }: RequestId): boolean => high >= topBit

/**
 * Gives every request an identity. Without an `Idempotency-Key` it comes from a sequence of this process (random bits would
 * cost 4.3 bytes a point on disk, a sequence costs next to nothing). With one it is a digest of the key, the same for every
 * repetition. The top bit differs between the two kinds, so they never collide.
 */
export function createIdentities(startMs: number) {
  // 42 bits of start time and 21 random bits: two processes that start in the same millisecond still differ.
  const high = ((BigInt(startMs) << 21n) | BigInt(randomInt(2 ** 21))) & low63Bits
  let counter = 0

  /**
   * @param userId whose key it is, and `call` on which route: the same key from another user or on another route is another request
   * @throws HttpError `badRequest`
   */
  return function toIdentity(userId: string, call: string, headers: IncomingHttpHeaders): RequestId {
    const key = headers['idempotency-key']
    if (key === undefined) return { high, low: counter++ }
    if (typeof key !== 'string' || key === '' || key.length > idempotencyKeyCharactersMax) {
      throw new HttpError('badRequest', `Idempotency-Key: must have 1 to ${idempotencyKeyCharactersMax} characters`)
    }
    const digest = hash('sha256', `${userId} ${call}\n${key}`, 'buffer')
    return { high: digest.readBigUInt64LE(0) | topBit, low: digest.readBigUInt64LE(8) }
  }
}
