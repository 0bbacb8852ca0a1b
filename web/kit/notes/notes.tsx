import { lazy, Suspense, useState } from 'react'
import { Button } from '../button.tsx'
import { EmptyPlace, LoadingPlace } from '../places.tsx'
import { toastError } from '../toast.tsx'
import styles from './notes.module.css'

const Markdown = lazy(() => import('./markdown.tsx').then((it) => ({ default: it.Markdown })))

type Props = {
  text: string
  /** Says what those can see who can see the notes. */
  readers: string
  /** Resolves when the new text is in `text`. Absent: the reader may not change it. */
  onSave: ((text: string) => Promise<unknown>) | undefined
  /** A part of a page, which has its own margins. */
  isInline?: boolean
}

/** What people wrote, in Markdown: to read, and to change beside a preview. */
export function Notes({ text, readers, onSave, isInline = false }: Props) {
  const [draft, setDraft] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  async function save(draft: string) {
    setBusy(true)
    try {
      await onSave?.(draft)
      setDraft(undefined)
    } catch (reason) {
      toastError(reason)
    } finally {
      setBusy(false)
    }
  }
  const page = isInline ? undefined : styles.page
  if (draft === undefined) {
    const edit = onSave && <Button onClick={() => setDraft(text)}>{text === '' ? 'Write notes' : 'Edit'}</Button>
    if (text === '') {
      return (
        <EmptyPlace title="No notes" action={edit}>
          What was tried, what came out, what to do next: in Markdown, for everybody who can see {readers}.
        </EmptyPlace>
      )
    }
    return (
      <div className={page}>
        {edit && <div className={styles.bar}>{edit}</div>}
        <Suspense fallback={<LoadingPlace />}>
          <Markdown text={text} />
        </Suspense>
      </div>
    )
  }
  return (
    <div className={page}>
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
