import { pipeline, type Readable, Transform } from 'node:stream'
import { HttpError } from '../../http/errors.ts'

/** How a zip begins: with its first entry, or, of an empty one, with its end. */
const beginnings = [Buffer.from('PK\x03\x04'), Buffer.from('PK\x05\x06')]
const beginningBytes = 4

/** Lets a zip through, and fails as soon as it shows that the content is none. */
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
  // Each ends with the other; whoever reads it hears of a fault.
  return pipeline(content, check, () => undefined)
}

const notZip = () => new HttpError('badRequest', 'file: is not a zip')
