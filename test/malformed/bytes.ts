import zlib from 'node:zlib'
import type { Choices } from './random.ts'

/** Bytes that are no UTF-8: lone, missing and surplus continuations, overlong forms, surrogates, beyond Unicode. */
const notUtf8 = ['80', 'c3', 'e282', 'c080', 'e08080', 'eda080', 'f0808080', 'f4908080', 'f8888080', 'fe', 'ff'].map(
  (it) => Buffer.from(it, 'hex'),
)

/** Cuts, alters or replaces a body. */
export function damage(whole: Buffer, choices: Choices): Buffer {
  const at = choices.below(whole.length + 1)
  switch (choices.below(6)) {
    case 0:
      return whole.subarray(0, at)
    case 1: {
      const flipped = Buffer.from(whole)
      if (at < flipped.length) flipped[at] = (flipped[at] as number) ^ (1 << choices.below(8))
      return flipped
    }
    case 2:
      return Buffer.from(Array.from({ length: choices.below(50) }, () => choices.below(256)))
    case 3:
      return Buffer.concat([Buffer.from('efbbbf', 'hex'), whole, whole])
    case 4:
      return Buffer.concat([whole.subarray(at), whole.subarray(0, at)])
    default:
      return Buffer.concat([whole.subarray(0, at), choices.one(notUtf8), whole.subarray(at)])
  }
}

const mebibyte = 1024 * 1024
/** The largest body that any call takes. */
export const bodyBytesMax = 16 * mebibyte

const gzipOf = (size: number, byte: string) => zlib.gzipSync(Buffer.alloc(size, byte))

/** Decompression bombs (1000:1), and bodies that are not the gzip they claim to be. */
export function createPackedBodies() {
  const bombs = [
    gzipOf(bodyBytesMax + 1, ' '),
    gzipOf(bodyBytesMax, ' '),
    gzipOf(bodyBytesMax - 1, '['),
    gzipOf(64 * mebibyte, '0'),
    zlib.gzipSync(Buffer.from(`{"experimentKey":"${'x'.repeat(bodyBytesMax - 100)}"}`)),
  ]
  const small = gzipOf(100, ' ')
  const broken = [
    zlib.gzipSync(gzipOf(10 * mebibyte, ' ')),
    zlib.gzipSync(zlib.gzipSync(Buffer.from('{}'))),
    zlib.deflateSync(Buffer.from('{}')),
    zlib.deflateRawSync(Buffer.from('{}')),
    zlib.brotliCompressSync(Buffer.from('{}')),
    zlib.zstdCompressSync(Buffer.from('{}')),
    (bombs[0] as Buffer).subarray(0, 10_000),
    small.subarray(0, 10),
    small.subarray(0, -1),
    Buffer.concat([small, small]),
    Buffer.concat([small, Buffer.from('more')]),
    Buffer.from('1f8b', 'hex'),
    Buffer.from('1f8b08ff', 'hex'),
    Buffer.from('{}'),
    Buffer.alloc(0),
  ]
  return { bombs, broken }
}
