import { pipeline, type Readable, Transform } from 'node:stream'
import { HttpError } from '../../http/errors.ts'

/** The first bytes of a zip: its first entry, or the end record of an empty zip. */
const beginnings = [Buffer.from('PK\x03\x04'), Buffer.from('PK\x05\x06')]
const beginningBytes = 4

/** Passes a zip through; fails as soon as the content is not a zip. */
export function passZip(content: Readable): Readable {
  let head: Buffer | undefined = Buffer.alloc(0)
  const check = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (head === undefined) return done(null, chunk)
      head = Buffer.concat([head, chunk])
      if (head.length < beginningBytes) return done()
      const begun = head
      head = undefined
      const isZip = beginnings.some((it) => it.equals(begun.subarray(0, beginningBytes)))
      done(isZip ? null : notZip(), begun)
    },
    flush: (done) => done(head === undefined ? null : notZip()),
  })
  // Each stream ends with the other; its reader gets the error.
  return pipeline(content, check, () => undefined)
}

const notZip = () => new HttpError('badRequest', 'file: is not a zip')
