import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createObjectKey } from '../objects/object-key.ts'
import { openObjects } from '../objects/open-objects.ts'
import { type Check, ok } from './finding.ts'

/** Writes a small object, reads it back and deletes it. */
export function objectsCheck(name: string, url: string): Check {
  return {
    name,
    async run() {
      const objects = await openObjects(url)
      try {
        const key = createObjectKey()
        const content = Buffer.from(`svc doctor ${key}`)
        await objects.put(key, Readable.from([content]))
        const found = await buffer(await objects.get(key)).finally(() => objects.delete(key))
        if (!found.equals(content)) throw new Error('returns other bytes than were written: do not use it')
        return [ok(name, 'written, read and deleted')]
      } finally {
        await objects.close()
      }
    },
  }
}
