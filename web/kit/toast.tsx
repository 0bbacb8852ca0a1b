import { useSyncExternalStore } from 'react'
import { Button, IconButton } from './button.tsx'
import { CloseIcon } from './icons.tsx'
import styles from './toast.module.css'

type Toast = {
  id: number
  text: string
  kind: 'note' | 'error'
  action?: { label: string; run(): void }
}

const shownMs = 8_000

let toasts: Toast[] = []
let lastId = 0
const listeners = new Set<() => void>()

function update(next: Toast[]) {
  toasts = next
  for (const listener of listeners) listener()
}

const remove = (id: number) => update(toasts.filter((it) => it.id !== id))

/** Tells the reader what happened, for a few seconds. Errors stay until they are closed. */
export function toast(text: string, { kind = 'note', ...rest }: Partial<Omit<Toast, 'id' | 'text'>> = {}) {
  const id = ++lastId
  update([...toasts.slice(-3), { id, text, kind, ...rest }])
  if (kind === 'note') setTimeout(() => remove(id), shownMs)
  return () => remove(id)
}

export const toastError = (error: unknown) => void toast((error as Error).message, { kind: 'error' })

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => toasts,
  )
  return (
    <div className={styles.toasts} role="status" aria-live="polite">
      {shown.map((it) => (
        <div key={it.id} className={styles.toast} data-kind={it.kind}>
          <span className={styles.text}>{it.text}</span>
          {it.action && (
            <Button
              size="small"
              onClick={() => {
                remove(it.id)
                it.action?.run()
              }}
            >
              {it.action.label}
            </Button>
          )}
          <IconButton label="Dismiss" size="small" onClick={() => remove(it.id)}>
            <CloseIcon size={14} />
          </IconButton>
        </div>
      ))}
    </div>
  )
}
