import type { ComponentProps, ReactNode } from 'react'
import styles from './button.module.css'

type Looks = { look?: 'plain' | 'primary' | 'danger' | 'quiet'; size?: 'small' | 'medium' }

export function Button({ look = 'plain', size = 'medium', className, ...rest }: ComponentProps<'button'> & Looks) {
  return <button type="button" className={join(styles.button, styles[look], styles[size], className)} {...rest} />
}

/** A link that looks like a button: it goes somewhere, or downloads something. */
export function ButtonLink({ look = 'plain', size = 'medium', className, ...rest }: ComponentProps<'a'> & Looks) {
  return <a className={join(styles.button, styles[look], styles[size], className)} {...rest} />
}

/** A button that shows only an icon; `label` is its name for screen readers and its tooltip. */
export function IconButton({
  label,
  size = 'medium',
  className,
  ...rest
}: Omit<ComponentProps<'button'>, 'aria-label'> & { label: string; children: ReactNode; size?: Looks['size'] }) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      className={join(styles.button, styles.quiet, styles.icon, styles[size], className)}
      {...rest}
    />
  )
}

/** Joins class names, without those that are absent. */
export const join = (...names: (string | false | null | undefined)[]) => names.filter(Boolean).join(' ')
