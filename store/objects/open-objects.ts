import { fileURLToPath } from 'node:url'
import { openFolder } from './folder.ts'
import type { ObjectStore } from './object-store.ts'

/**
 * Opens the store at an address: `file:///folder`, or `s3://access:secret@host:port/bucket/prefix?region=..&tls=false`.
 *
 * @param setting the name of the setting with the address, for errors
 * @throws Error with advice
 */
export async function openObjects(url: string, setting = 'OBJECTS_URL'): Promise<ObjectStore> {
  if (new URL(url).protocol === 'file:') return await openFolder(fileURLToPath(url))
  // Imported on demand: the library takes a third of a second to load.
  const { openS3 } = await import('./s3.ts')
  return await openS3(url, setting)
}
