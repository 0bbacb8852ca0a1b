import { hash, randomInt } from 'node:crypto'

/** The first part of a row's identity: 128 bits that belong to one request. The second part is the place in it. */
export type RequestId = { high: bigint; low: number | bigint }

const topBit = 2n ** 63n
const low63Bits = topBit - 1n

/**
 * Gives every request an identity. Without an `Idempotency-Key` it is drawn from a sequence of this process (random bits
 * would cost 4.3 bytes a point on disk, a sequence costs next to nothing); with one it is a digest of the key, the same
 * for every repetition. The top bit tells the two kinds apart, so they never meet.
 */
export function createIdentities(startMs: number) {
  // 42 bits of start time and 21 random bits: two processes that start in the same millisecond still differ.
  const process = (BigInt(startMs) << 21n) | BigInt(randomInt(2 ** 21))
  let counter = 0

  return {
    next(): RequestId {
      return { high: process & low63Bits, low: counter++ }
    },
  }
}

/**
 * The identity of a request that may be repeated.
 *
 * @param scope whose key it is, and for which call: the same text from somebody else is another request
 */
export function toRequestId(scope: string, idempotencyKey: string): RequestId {
  const digest = hash('sha256', `${scope}\n${idempotencyKey}`, 'buffer')
  return { high: digest.readBigUInt64LE(0) | topBit, low: digest.readBigUInt64LE(8) }
}
