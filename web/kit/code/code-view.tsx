import { useEffect, useState } from 'react'
import { CopyButton } from '../snippet.tsx'
import styles from './code-view.module.css'
import type { Piece } from './highlight.ts'

const linesMax = 20_000

/** Source code with line numbers and colours, which come when they are loaded. */
export function CodeView({ text, fileName }: { text: string; fileName: string }) {
  const plain = (): Piece[][] => text.split('\n').map((it) => [{ text: it }])
  const [coloured, setColoured] = useState<{ of: string; lines: Piece[][] }>()
  useEffect(() => {
    let isHere = true
    import('./highlight.ts').then(
      ({ highlight }) => isHere && setColoured({ of: text, lines: highlight(text, fileName) }),
      () => undefined,
    )
    return () => {
      isHere = false
    }
  }, [text, fileName])
  const lines = coloured?.of === text ? coloured.lines : plain()
  return (
    <div className={styles.frame}>
      <div className={styles.copy}>
        <CopyButton text={text} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it is scrolled by keyboard */}
      <pre className={styles.code} tabIndex={0}>
        {lines.slice(0, linesMax).map((line, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a line is its number
          <div key={at} className={styles.line}>
            {line.map(({ text: piece, kind }, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no identity
              <span key={index} data-kind={kind}>
                {piece}
              </span>
            ))}
          </div>
        ))}
      </pre>
      {lines.length > linesMax && (
        <p className={styles.more}>The first {linesMax} lines are shown. Download the file to see all.</p>
      )}
    </div>
  )
}
