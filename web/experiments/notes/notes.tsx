import { lazy, Suspense, useState } from 'react'
import { Button } from '../../kit/button.tsx'
import { EmptyPlace, LoadingPlace } from '../../kit/places.tsx'
import { toastError } from '../../kit/toast.tsx'
import styles from './notes.module.css'

const Markdown = lazy(() => import('../output/markdown.tsx').then((it) => ({ default: it.Markdown })))

/** `readers` says who can see them; `onSave` resolves when the new text is in `text`. */
type Props = { text: string; readers: string; onSave(text: string): Promise<unknown> }

/** What people wrote, in Markdown: to read, and to change beside a preview. */
export function Notes({ text, readers, onSave }: Props) {
  const [draft, setDraft] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  async function save(draft: string) {
    setBusy(true)
    try {
      await onSave(draft)
      setDraft(undefined)
    } catch (reason) {
      toastError(reason)
    } finally {
      setBusy(false)
    }
  }
  if (draft === undefined) {
    const edit = <Button onClick={() => setDraft(text)}>{text === '' ? 'Write notes' : 'Edit'}</Button>
    if (text === '') {
      return (
        <EmptyPlace title="No notes" action={edit}>
          What was tried, what came out, what to do next: in Markdown, for everybody who can see {readers}.
        </EmptyPlace>
      )
    }
    return (
      <div className={styles.page}>
        <div className={styles.bar}>{edit}</div>
        <Suspense fallback={<LoadingPlace />}>
          <Markdown text={text} />
        </Suspense>
      </div>
    )
  }
  return (
    <div className={styles.page}>
      <div className={styles.bar}>
        <Button look="primary" disabled={isBusy || draft === text} onClick={() => save(draft)}>
          Save
        </Button>
        <Button look="quiet" onClick={() => setDraft(undefined)}>
          Cancel
        </Button>
      </div>
      <div className={styles.editor}>
        <textarea
          aria-label="Notes in Markdown"
          // biome-ignore lint/a11y/noAutofocus: the reader has just asked to write
          autoFocus
          value={draft}
          onChange={(event) => setDraft(event.target.value)}
        />
        <div role="region" aria-label="Preview" className={styles.preview}>
          <Suspense fallback={null}>
            <Markdown text={draft} />
          </Suspense>
        </div>
      </div>
    </div>
  )
}
