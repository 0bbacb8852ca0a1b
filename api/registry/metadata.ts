import { type ExactJson, parseExactJson, writeExactJson } from '../../http/body/exact-json.ts'
import { HttpError } from '../../http/errors.ts'
import { updateVersionMetadata } from '../../store/postgres/registry/statuses.ts'
import type { RegistryVersion } from '../../store/postgres/registry/versions.ts'
import type { OpenChange } from './change.ts'
import { findFacts } from './find.ts'

/** Metadata of a version: keys and values of any kind, kept as JSON text. */

const metadataBytesMax = 1_000_000

/** The values are JSON texts; undefined is null. */
type Entry = { key: string; value: string | undefined }

/** Sets metadata of a version. Keys that are not given stay the same. @throws HttpError `badRequest` for too much of it */
export async function setMetadata(open: OpenChange, version: RegistryVersion, given: Entry[]): Promise<void> {
  const entries = await readMetadata(open, version)
  for (const { key, value = 'null' } of given) entries.set(key, value)
  await write(open, version, entries, given)
}

/** Removes a key of a version. @returns false when there is no such key */
export async function deleteMetadata(open: OpenChange, version: RegistryVersion, key: string): Promise<boolean> {
  const entries = await readMetadata(open, version)
  if (!entries.delete(key)) return false
  await write(open, version, entries, [{ key }])
  return true
}

async function write(
  { queries, nowMs, record }: OpenChange,
  version: RegistryVersion,
  entries: Map<string, string>,
  changed: { key: string }[],
) {
  const written = [...entries].map(([key, value]) => `{"key":${JSON.stringify(key)},"value":${value}}`)
  const text = `[${written.join(',')}]`
  if (Buffer.byteLength(text) > metadataBytesMax) {
    throw new HttpError(
      'badRequest',
      `metadata: must have ${metadataBytesMax} bytes or fewer as JSON, all keys together`,
    )
  }
  await updateVersionMetadata(queries, version.id, text, nowMs)
  const after = { metadataKeys: changed.map((it) => it.key) }
  await record({ action: 'MODEL_VERSION_METADATA_CHANGED', version, before: {}, after })
}

async function readMetadata({ queries, caller }: OpenChange, version: RegistryVersion): Promise<Map<string, string>> {
  return parseMetadata((await findFacts(queries, caller, version.id)).metadata)
}

/** Keys and JSON texts, in the order in which they came. */
export function parseMetadata(text: string): Map<string, string> {
  const list = parseExactJson(text) as { [name: string]: ExactJson }[]
  return new Map(list.map((it) => [it.key as string, writeExactJson(it.value as ExactJson)]))
}
