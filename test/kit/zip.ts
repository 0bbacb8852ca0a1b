import zlib from 'node:zlib'

type Entry = { name: string; method: number; bytes: Buffer }

/** What a zip holds, by its central directory. */
export function readZip(zip: Buffer): Entry[] {
  const end = zip.lastIndexOf('PK\x05\x06', undefined, 'latin1')
  let at = zip.readUInt32LE(end + 16)
  return Array.from({ length: zip.readUInt16LE(end + 10) }, () => {
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((it) => zip.readUInt16LE(at + it)) as [
      number,
      number,
      number,
    ]
    const name = zip.toString('utf8', at + 46, at + 46 + nameLength)
    const method = zip.readUInt16LE(at + 10)
    const local = zip.readUInt32LE(at + 42)
    const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28)
    const packed = zip.subarray(start, start + zip.readUInt32LE(at + 20))
    at += 46 + nameLength + extraLength + commentLength
    return { name, method, bytes: zlib.inflateRawSync(packed) }
  })
}
