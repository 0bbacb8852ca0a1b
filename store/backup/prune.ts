import type { ObjectStore } from '../objects/object-store.ts'
import { readLines } from './files.ts'
import { type KeptObject, listBackups, readManifest, startOf, toFileKey, toPoolKey } from './manifest.ts'

/** Nobody writes on after so long. */
const brokenOffAfterMs = 24 * 3_600_000

/**
 * Deletes all but the newest whole backups, what was broken off more than a day ago, and the objects that none of those left
 * has. To be called while no other backup is written to the same place.
 *
 * @returns the ids of what was deleted
 */
export async function pruneBackups(
  target: ObjectStore,
  keep: number,
): Promise<{ deleted: string[]; onDisks: string[] }> {
  const all = await listBackups(target)
  const whole = all.filter((it) => it.isWhole)
  const kept = new Set(whole.slice(-keep).map((it) => it.id))
  const now = Date.now()
  const gone = all.filter(({ id, isWhole }) => !kept.has(id) && (isWhole || now - startOf(id) > brokenOffAfterMs))
  if (gone.length === 0) return { deleted: [], onDisks: [] }
  // Read before anything is deleted: a list that cannot be read keeps all objects.
  const needed = new Set<string>()
  for (const id of kept) {
    const { objects } = await readManifest(target, id)
    for await (const { key } of readLines<KeptObject>(target, id, objects.file)) needed.add(toPoolKey(key))
  }
  const onDisks: string[] = []
  for (const { id, isWhole } of gone) {
    const place = isWhole ? (await readManifest(target, id).catch(() => undefined))?.clickhouse.place : undefined
    if (place?.kind === 'disk') onDisks.push(`${place.disk}: ${place.path}`)
    // The manifest goes first: without it the rest is no backup.
    await target.delete(toFileKey(id, 'manifest.json'))
    for await (const { key } of target.list(toFileKey(id, ''))) await target.delete(key)
  }
  const isBeingMade = all.some(({ id, isWhole }) => !isWhole && !gone.some((it) => it.id === id))
  if (!isBeingMade) {
    for await (const { key } of target.list(toPoolKey(''))) if (!needed.has(key)) await target.delete(key)
  }
  return { deleted: gone.map((it) => it.id), onDisks }
}
