import { PassThrough, pipeline, type Readable } from 'node:stream'
import { ZipFile } from 'yazl'

type ZipEntry = {
  /** May have folders; a name that is not safe to unpack is made so. */
  name: string
  bytes: number
  atMs: number
  open(): Promise<Readable>
}

/** Files as one zip with DEFLATE entries, made as it is read: one file is open at a time, none is held in memory. */
export function createZip(entries: ZipEntry[]): Readable {
  const zip = new ZipFile()
  const out = new PassThrough()
  let open: Readable | undefined
  zip.on('error', (error: Error) => out.destroy(error))
  pipeline(zip.outputStream, out, () => undefined)
  // Who does not read on must not keep a file open.
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
          done(null, content)
        },
        (error: Error) => out.destroy(error),
      )
    })
  }
  zip.end()
  return out
}

/** Below the folder it is unpacked in, on any system. */
function toSafeName(name: string): string {
  const steps = name.split(/[/\\]/).map((it) => it.replace(/[:\0]/g, '_'))
  return steps.filter((it) => it !== '' && it !== '.' && it !== '..').join('/') || 'file'
}

/** Two assets may have one name; two files of a folder may not. */
function toUniqueName(name: string, taken: Map<string, number>): string {
  let unique = name
  let count = taken.get(name) ?? 0
  while (taken.has(unique)) unique = name.replace(/(\.[^./]+)?$/, ` (${++count})$1`)
  taken.set(name, Math.max(count, 1))
  if (unique !== name) taken.set(unique, 1)
  return unique
}
