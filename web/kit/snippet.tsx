import { useState } from 'react'
import { IconButton } from './button.tsx'
import { CheckIcon, CopyIcon } from './icons.tsx'
import styles from './snippet.module.css'
import { toast } from './toast.tsx'

/** Code to copy. */
export function Snippet({ code, label = 'Copy' }: { code: string; label?: string }) {
  return (
    <div className={styles.snippet}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a wide snippet is scrolled by keyboard */}
      <pre tabIndex={0}>{code}</pre>
      <CopyButton text={code} label={label} />
    </div>
  )
}

/** Copies a text, or what a function makes when it is pressed. */
export function CopyButton({
  text,
  label = 'Copy',
}: {
  text: string | (() => string | Promise<string>)
  label?: string
}) {
  const [isDone, setDone] = useState(false)
  async function copy() {
    try {
      await navigator.clipboard.writeText(typeof text === 'string' ? text : await text())
      setDone(true)
      setTimeout(() => setDone(false), 1_500)
    } catch {
      // Browsers lend the clipboard only to pages under TLS or on this machine.
      toast('This browser does not let the page copy: select the text and copy it by hand.', { kind: 'error' })
    }
  }
  return (
    <IconButton label={isDone ? 'Copied' : label} size="small" onClick={copy}>
      {isDone ? <CheckIcon size={14} /> : <CopyIcon size={14} />}
    </IconButton>
  )
}
