import styles from './new-key.module.css'
import { Snippet } from './snippet.tsx'

/** A key that was just made. It is nowhere else: it goes when the page does. */
export function NewKey({ apiKey, owner }: { apiKey: string; owner?: string }) {
  return (
    <div className={styles.once} role="status">
      <p>
        <strong>{owner ? `The new key of ${owner}` : 'Your new key'}.</strong> Copy it now: it is shown only once.
      </p>
      <Snippet code={apiKey} label="Copy the key" />
    </div>
  )
}
