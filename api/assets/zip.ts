import { pipeline, type Readable, Transform } from 'node:stream'
import { ZipFile } from 'yazl'

type ZipEntry = {
  /** May have folders; unsafe parts are removed. */
  name: string
  bytes: number
  atMs: number
  open(): Promise<Readable>
}

/**
 * A zip of files with DEFLATE entries, written while it is read: one file is open at a time, none is held in memory. Clients
 * that unzip as bytes arrive need large chunks, and the directory after the last entry in one.
 */
export function createZip(entries: ZipEntry[]): Readable {
  const zip = new ZipFile()
  const { out, holdRest } = gather()
  let left = entries.length
  if (left === 0) holdRest()
  let open: Readable | undefined
  zip.on('error', (error: Error) => out.destroy(error))
  pipeline(zip.outputStream, out, () => undefined)
  // Or else a caller that stops reading would keep a file open.
  out.once('close', () => open?.destroy())
  const names = new Map<string, number>()
  for (const { name, bytes, atMs, open: openEntry } of entries) {
    const options = { size: bytes, mtime: new Date(atMs) }
    zip.addReadStreamLazy(toUniqueName(toSafeName(name), names), options, (done) => {
      openEntry().then(
        (content) => {
          open = content
          if (out.destroyed) return void content.destroy()
          content.once('error', (error) => out.destroy(error))
          content.once('end', () => --left === 0 && holdRest())
          done(null, content)
        },
        (error: Error) => out.destroy(error),
      )
    })
  }
  zip.end()
  return out
}

const chunkBytes = 64 * 1024

/** Joins small chunks to large ones; after `holdRest` all that is left to one. */
function gather() {
  let chunks: Buffer[] = []
  let bytes = 0
  let holdsRest = false
  const take = () => {
    const joined = Buffer.concat(chunks, bytes)
    chunks = []
    bytes = 0
    return joined
  }
  const out = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes < chunkBytes || holdsRest) done()
      else done(null, take())
    },
    flush: (done) => done(null, take()),
  })
  return {
    out,
    holdRest: () => {
      holdsRest = true
    },
  }
}

/**
 * A path that stays inside the target folder on any system. Windows drops dots and spaces at the end of a step, so `.. ` would lead up there,
 * and it opens a device for `NUL` and `nul.txt` alike.
 */
function toSafeName(name: string): string {
  const steps = name.split(/[/\\]/).map((it) => it.replace(/[:\p{Cc}]/gu, '_').replace(/[. ]+$/, ''))
  return (
    steps
      .filter((it) => it !== '')
      .map((it) => (device.test(it) ? `_${it}` : it))
      .join('/') || 'file'
  )
}

const device = /^(con|prn|aux|nul|com\d|lpt\d)(\.| *$)/i

/** Assets may share a name; entries of a zip may not, nor may two that differ in capitals only: they are one file for many systems. */
function toUniqueName(name: string, taken: Map<string, number>): string {
  const toKey = (it: string) => it.toLowerCase()
  let unique = name
  let count = taken.get(toKey(name)) ?? 0
  while (taken.has(toKey(unique))) unique = name.replace(/(\.[^./]+)?$/, ` (${++count})$1`)
  taken.set(toKey(name), Math.max(count, 1))
  if (unique !== name) taken.set(toKey(unique), 1)
  return unique
}
