import type { CSSProperties } from 'react'
import styles from './styled.module.css'
import type { Span, Style } from './terminal.ts'

/** Goes around what is styled: it has the colours. */
export const palette = styles.palette

/** The spans of a row; the words that are searched for are marked. */
export function Styled({ spans, mark }: { spans: Span[]; mark?: string }) {
  return spans.map(({ text, style }, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: spans have no identity
    <span key={at} style={toCss(style)}>
      <Marked text={text} mark={mark} />
    </span>
  ))
}

function Marked({ text, mark }: { text: string; mark?: string }) {
  if (!mark) return text
  const parts = text.split(new RegExp(`(${mark.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')})`, 'gi'))
  return parts.map((part, at) =>
    at % 2 === 1 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: parts have no identity
      <mark key={at}>{part}</mark>
    ) : (
      part
    ),
  )
}

const toColour = (it: string | number | undefined) => (typeof it === 'number' ? `var(--ansi-${it})` : it)

function toCss({ fg, bg, bold, dim, italic, underline, strike, inverse }: Style): CSSProperties | undefined {
  const color = toColour(inverse ? (bg ?? undefined) : fg) ?? (inverse ? 'var(--page)' : undefined)
  const background = toColour(inverse ? fg : bg) ?? (inverse ? 'var(--text)' : undefined)
  const line = [underline && 'underline', strike && 'line-through'].filter(Boolean).join(' ')
  return {
    color,
    background,
    fontWeight: bold && 600,
    fontStyle: italic && 'italic',
    opacity: dim && 0.7,
    textDecoration: line || undefined,
  }
}
