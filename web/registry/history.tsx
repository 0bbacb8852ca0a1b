import type { Change } from '../api/registry.ts'
import { toAgo, toTime } from '../kit/text.ts'
import styles from './registry.module.css'

/** Changes of the registry with who made them, the newest first. `withVersion`: also which version each is about. */
export function History({ changes, withVersion = false }: { changes: Change[]; withVersion?: boolean }) {
  return (
    <ol className={styles.changes} aria-label="History">
      {changes.map((it, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: two changes may be the same but for their place
        <li key={at}>
          <p>
            {withVersion && it.version !== null && <strong>{it.version} </strong>}
            {describe(it)}
          </p>
          <p title={toTime(it.timestamp)}>
            {it.userName}, {toAgo(it.timestamp)}
          </p>
        </li>
      ))}
    </ol>
  )
}

const toList = (it: unknown): string[] => (Array.isArray(it) ? it.map(String) : [])

/** What was done, in a sentence without its subject. */
function describe({ action, before, after }: Change): string {
  const [old, now] = [toList(before.stages), toList(after.stages)]
  const added = now.filter((it) => !old.includes(it))
  const removed = old.filter((it) => !now.includes(it))
  const stages = [
    ...(added.length > 0 ? [`got the stage ${added.join(', ')}`] : []),
    ...(removed.length > 0 ? [`lost the stage ${removed.join(', ')}`] : []),
  ].join(' and ')
  switch (action) {
    case 'MODEL_CREATED':
      return 'The model was registered'
    case 'MODEL_RENAMED':
      return `Renamed from ${before.registryModelName} to ${after.registryModelName}`
    case 'MODEL_UPDATED':
      return [
        ...('description' in after ? ['The description was changed'] : []),
        ...('isPublic' in after ? [after.isPublic ? 'Made public' : 'Made private'] : []),
      ].join('. ')
    case 'MODEL_NOTES_CHANGED':
      return 'The notes were changed'
    case 'MODEL_TAGS_CHANGED':
      return `The tags changed: ${[...new Set([...Object.keys(before), ...Object.keys(after)])].join(', ')}`
    case 'MODEL_ALIASES_CHANGED':
      return [
        ...Object.keys(after).map((it) => `got the alias ${it}`),
        ...Object.keys(before)
          .filter((it) => !(it in after))
          .map((it) => `lost the alias ${it}`),
      ].join(' and ')
    case 'MODEL_DELETED':
      return 'The model was deleted'
    case 'MODEL_VERSION_CREATED':
      return now.length > 0 ? `was registered with the stage ${now.join(', ')}` : 'was registered'
    case 'MODEL_VERSION_DELETED':
      return 'was deleted'
    case 'MODEL_VERSION_STATUS_CHANGED':
      return `went from the status ${before.status} to ${after.status}`
    case 'MODEL_VERSION_STATUS_REQUEST_CHANGE':
      return `is to get the status ${after.status} once it is reviewed`
    case 'MODEL_VERSION_METADATA_CHANGED':
      return `got metadata: ${toList(after.metadataKeys).join(', ')}`
    default:
      return stages || 'got another comment'
  }
}
