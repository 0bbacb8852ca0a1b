import { type ComponentProps, type ReactNode, useId } from 'react'
import { join } from './button.tsx'
import styles from './field.module.css'

type Frame = { label: ReactNode; hint?: ReactNode }

export function TextField({ label, hint, ...rest }: Frame & ComponentProps<'input'>) {
  const id = useId()
  return (
    <div className={styles.field}>
      <label htmlFor={id}>{label}</label>
      <Input id={id} aria-describedby={hint ? `${id}-hint` : undefined} {...rest} />
      {hint && (
        <p id={`${id}-hint`} className={styles.hint}>
          {hint}
        </p>
      )}
    </div>
  )
}

export function TextArea({ label, hint, ...rest }: Frame & ComponentProps<'textarea'>) {
  const id = useId()
  return (
    <div className={styles.field}>
      <label htmlFor={id}>{label}</label>
      <textarea id={id} className={join(styles.input, styles.area)} rows={3} {...rest} />
      {hint && <p className={styles.hint}>{hint}</p>}
    </div>
  )
}

/** An input without a label of its own: give it an `aria-label`. */
export function Input({ className, ...rest }: ComponentProps<'input'>) {
  return <input autoComplete="off" spellCheck={false} className={join(styles.input, className)} {...rest} />
}

/** The browser's own select: it opens at once, works by keyboard and on phones, and writes no style element. */
export function Select({ className, ...rest }: ComponentProps<'select'>) {
  return <select className={join(styles.input, styles.select, className)} {...rest} />
}

export function Checkbox({ children, ...rest }: ComponentProps<'input'>) {
  return (
    <label className={styles.check}>
      <input type="checkbox" {...rest} />
      {children}
    </label>
  )
}
