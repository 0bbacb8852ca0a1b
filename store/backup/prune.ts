import type { ObjectStore } from '../objects/object-store.ts'
import { readLines } from './files.ts'
import { type KeptObject, listBackups, readManifest, startOf, toFileKey, toPoolKey } from './manifest.ts'

/** An incomplete backup of this age was interrupted. */
const interruptedAfterMs = 24 * 3_600_000

/**
 * Deletes all complete backups but the newest, incomplete ones older than a day, and objects that no remaining backup contains.
 * Must not run while another backup is written to the same place.
 *
 * @returns the ids of the deleted backups
 */
export async function pruneBackups(
  target: ObjectStore,
  keep: number,
): Promise<{ deleted: string[]; onDisks: string[] }> {
  const all = await listBackups(target)
  const whole = all.filter((it) => it.isComplete)
  const kept = new Set(whole.slice(-keep).map((it) => it.id))
  const now = Date.now()
  const gone = all.filter(
    ({ id, isComplete }) => !kept.has(id) && (isComplete || now - startOf(id) > interruptedAfterMs),
  )
  if (gone.length === 0) return { deleted: [], onDisks: [] }
  // Read first: if a list cannot be read, nothing is deleted.
  const needed = new Set<string>()
  for (const id of kept) {
    const { objects } = await readManifest(target, id)
    for await (const { key } of readLines<KeptObject>(target, id, objects.file)) needed.add(toPoolKey(key))
  }
  const onDisks: string[] = []
  for (const { id, isComplete } of gone) {
    const place = isComplete ? (await readManifest(target, id).catch(() => undefined))?.clickhouse.place : undefined
    if (place?.kind === 'disk') onDisks.push(`${place.disk}: ${place.path}`)
    // The manifest first: without it the rest counts as incomplete.
    await target.delete(toFileKey(id, 'manifest.json'))
    for await (const { key } of target.list(toFileKey(id, ''))) await target.delete(key)
  }
  const isBeingMade = all.some(({ id, isComplete }) => !isComplete && !gone.some((it) => it.id === id))
  if (!isBeingMade) {
    for await (const { key } of target.list(toPoolKey(''))) if (!needed.has(key)) await target.delete(key)
  }
  return { deleted: gone.map((it) => it.id), onDisks }
}
