import { useMemo } from 'react'
import { type PatchFile, parsePatch } from './patch.ts'
import styles from './patch-view.module.css'

/** A patch, file by file. */
export function PatchView({ patch }: { patch: string }) {
  const files = useMemo(() => parsePatch(patch), [patch])
  return (
    <div className={styles.files}>
      {files.map((it, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a patch may name a file twice
        <Patched key={at} file={it} />
      ))}
    </div>
  )
}

const marks = { add: '+', remove: '−', same: ' ', hunk: '', note: '' }

function Patched({ file }: { file: PatchFile }) {
  return (
    <details open className={styles.file}>
      <summary className={styles.name}>
        <code>{file.name || 'Patch'}</code>
        <span className={styles.added}>+{file.added}</span>
        <span className={styles.removed}>−{file.removed}</span>
      </summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it is scrolled by keyboard */}
      <pre className={styles.lines} tabIndex={0}>
        {file.lines.map(({ kind, text, before, after }, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity
          <div key={at} className={styles.line} data-kind={kind}>
            <span className={styles.number}>{before}</span>
            <span className={styles.number}>{after}</span>
            <span className={styles.mark}>{marks[kind]}</span>
            <span>{text}</span>
          </div>
        ))}
      </pre>
    </details>
  )
}
