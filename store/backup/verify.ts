import type { ObjectStore } from '../objects/object-store.ts'
import { measure, readLines } from './files.ts'
import { type BackupFile, type KeptObject, type Manifest, toFileKey, toPoolKey } from './manifest.ts'

/** A missing or changed file of a backup. */
export type Damage = { file: string; what: string }

const atOnce = 4

/**
 * Reads all files of a backup and compares them with the manifest. Cannot read a disk of ClickHouse; of files that ClickHouse
 * wrote to S3 it compares size and ETag.
 *
 * @param say called with the number of bytes read so far
 */
export async function verifyBackup(
  target: ObjectStore,
  manifest: Manifest,
  say: (bytes: number) => void = () => {},
): Promise<Damage[]> {
  const damages: Damage[] = []
  let bytes = 0
  const note = (file: string, what: string | undefined) => {
    if (what) damages.push({ file, what })
  }
  const listed = await listTagged(target, manifest)
  for (const file of manifest.files) {
    const key = toFileKey(manifest.id, file.name)
    if (file.sha256 === undefined) note(key, compareTags(file, listed.get(file.name)))
    else note(key, await compare(target, key, { bytes: file.bytes, sha256: file.sha256 }))
    bytes += file.bytes
    say(bytes)
  }
  // The list of objects may be damaged too.
  if (damages.length > 0) return damages
  const pool = readLines<KeptObject>(target, manifest.id, manifest.objects.file)
  const readOn = async () => {
    for await (const object of pool) {
      const key = toPoolKey(object.key)
      note(key, await compare(target, key, object))
      bytes += object.bytes
      say(bytes)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, readOn))
  return damages
}

async function compare(target: ObjectStore, key: string, expected: { bytes: number; sha256: string }) {
  let found: { bytes: number; sha256: string }
  try {
    found = await measure(await target.get(key))
  } catch (error) {
    if (error instanceof Error && error.name === 'StoreAway') throw error
    return 'is missing'
  }
  if (found.bytes !== expected.bytes) return `has ${found.bytes} bytes, not ${expected.bytes}`
  return found.sha256 === expected.sha256 ? undefined : 'has other content than was written'
}

async function listTagged(target: ObjectStore, { id, files }: Manifest): Promise<Map<string, BackupFile>> {
  const found = new Map<string, BackupFile>()
  if (files.every((it) => it.sha256 !== undefined)) return found
  const folder = toFileKey(id, '')
  for await (const { key, bytes, etag } of target.list(folder)) {
    const name = key.slice(folder.length)
    found.set(name, { name, bytes, etag })
  }
  return found
}

function compareTags(expected: BackupFile, found: BackupFile | undefined): string | undefined {
  if (!found) return 'is missing'
  if (found.bytes !== expected.bytes) return `has ${found.bytes} bytes, not ${expected.bytes}`
  return found.etag === expected.etag ? undefined : 'has other content than was written'
}
