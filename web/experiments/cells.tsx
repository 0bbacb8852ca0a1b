import { memo } from 'react'
import type { ColumnType, Value } from '../api/runs.ts'
import { toAgo, toDuration, toNumber, toTime } from '../kit/text.ts'
import styles from './cells.module.css'

/** One value of a run, as its type reads best. An absent value is a blank. */
export const Cell = memo(function Cell({ column, type, value }: { column: string; type: ColumnType; value: Value }) {
  if (value === null || value === undefined) return <span className="visually-hidden">none</span>
  if (column === 'state') return <State state={String(value)} />
  if (Array.isArray(value)) return <Tags tags={value} />
  if (type === 'time') return <time title={toTime(Number(value))}>{toAgo(Number(value))}</time>
  if (type === 'duration') return toDuration(Number(value))
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (type !== 'number') return <span title={String(value)}>{String(value)}</span>
  const number = Number(value)
  if (value === 'NaN' || !Number.isFinite(number)) return <span className={styles.odd}>{toNumber(number)}</span>
  return <span title={String(value)}>{toNumber(number)}</span>
})

const states: Record<string, string> = {
  running: 'Running',
  finished: 'Finished',
  stopped: 'Stopped',
  crashed: 'Crashed',
  failed: 'Failed',
  stale: 'No sign of life',
  throttled: 'Throttled',
}

/** A dot with a word: colour alone tells nothing to some. A running one has a ring that breathes. */
export function State({ state, isShort = false }: { state: string; isShort?: boolean }) {
  const word = states[state] ?? state
  return (
    <span className={styles.state} data-state={state} data-short={isShort || undefined} title={word}>
      <span className={styles.dot} />
      <span className={isShort ? 'visually-hidden' : undefined}>{word}</span>
    </span>
  )
}

/** All of them stand there; those that do not fit fade out, and the tooltip has them. */
function Tags({ tags }: { tags: string[] }) {
  if (tags.length === 0) return <span className="visually-hidden">none</span>
  return (
    <span className={styles.tags} title={tags.join(', ')}>
      {tags.map((it) => (
        <span key={it} className={styles.tag}>
          {it}
        </span>
      ))}
    </span>
  )
}
