import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react'
import { Button, IconButton } from './button.tsx'
import styles from './dialog.module.css'
import { CloseIcon } from './icons.tsx'

type Frame = { title: string; onClose(): void; children: ReactNode; width?: number }

/** A native dialog: the browser keeps the focus inside, closes it on Escape and gives the focus back. */
export function Dialog({ title, onClose, children, width = 440 }: Frame) {
  const frame = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const dialog = frame.current
    dialog?.showModal()
    // It would focus the first button, which closes it.
    dialog?.querySelector<HTMLElement>('input, select, textarea')?.focus()
    return () => dialog?.close()
  }, [])
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the keyboard has Escape, which the browser handles
    <dialog
      ref={frame}
      className={styles.dialog}
      style={{ width }}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={(event) => event.target === frame.current && onClose()}
    >
      <div className={styles.inside}>
        <header className={styles.header}>
          <h2 id={titleId}>{title}</h2>
          <IconButton label="Close" size="small" onClick={onClose}>
            <CloseIcon />
          </IconButton>
        </header>
        {children}
      </div>
    </dialog>
  )
}

type Form = Frame & {
  /** What the button says, such as `Create project`. */
  action: string
  danger?: boolean
  canSubmit?: boolean
  /** Resolves when it is done, and the dialog closes; rejects with the reason, which is shown. */
  onSubmit(): Promise<unknown>
}

/** A dialog that does one thing, and shows why it could not. */
export function FormDialog({ action, danger, canSubmit = true, onSubmit, children, ...frame }: Form) {
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  async function submit(event: FormEvent) {
    event.preventDefault()
    if (!canSubmit || isBusy) return
    setBusy(true)
    setError(undefined)
    try {
      await onSubmit()
      frame.onClose()
    } catch (reason) {
      setError((reason as Error).message)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog {...frame}>
      <form onSubmit={submit} className={styles.form}>
        {children}
        {error && (
          <p role="alert" className={styles.error}>
            {error}
          </p>
        )}
        <footer className={styles.footer}>
          <Button look="quiet" onClick={frame.onClose}>
            Cancel
          </Button>
          <Button type="submit" look={danger ? 'danger' : 'primary'} disabled={!canSubmit || isBusy}>
            {action}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
