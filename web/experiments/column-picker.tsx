import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, useRef, useState } from 'react'
import type { Column, KnownColumn } from '../api/runs.ts'
import { Input } from '../kit/field.tsx'
import styles from './column-picker.module.css'
import { type ColumnId, sourceNames, toColumnId, toLabel } from './columns.ts'

export type Choice = KnownColumn & { id: ColumnId }

const rowHeight = 28

type Props = {
  known: Choice[]
  /** Draws what is behind the name of a column, such as a check mark. */
  mark?(choice: Choice): ReactNode
  isChosen?(choice: Choice): boolean
  onChoose(choice: Choice): void
}

/** A list of columns to search and choose from; only the rows in sight exist, so a hundred thousand columns are fine. */
export function ColumnPicker({ known, mark, isChosen, onChoose }: Props) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const frame = useRef<HTMLDivElement>(null)
  const rows = toRows(known, text)
  const choices = rows.filter((it) => 'choice' in it)
  const chosen = choices[Math.min(at, choices.length - 1)]
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => rowHeight,
    overscan: 10,
    initialRect: { width: 280, height: 320 },
  })
  function move(by: number) {
    const next = Math.min(Math.max(at + by, 0), choices.length - 1)
    setAt(next)
    const row = choices[next]
    if (row) virtual.scrollToIndex(rows.indexOf(row))
  }
  return (
    <div className={styles.picker}>
      <Input
        autoFocus
        type="search"
        aria-label="Search columns"
        placeholder="Search columns"
        value={text}
        onChange={(event) => {
          setText(event.target.value)
          setAt(0)
        }}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') move(1)
          else if (event.key === 'ArrowUp') move(-1)
          else if (event.key === 'Enter' && chosen && 'choice' in chosen) onChoose(chosen.choice)
          else return
          event.preventDefault()
        }}
      />
      <div ref={frame} className={styles.list}>
        <div style={{ height: virtual.getTotalSize() }} className={styles.inside}>
          {virtual.getVirtualItems().map((it) => {
            const row = rows[it.index]
            if (!row) return null
            if (!('choice' in row)) {
              return (
                <div key={row.heading} className={styles.heading} style={{ top: it.start }}>
                  {row.heading}
                </div>
              )
            }
            const { choice } = row
            return (
              <div
                key={choice.id}
                className={styles.row}
                data-at={row === chosen || undefined}
                style={{ top: it.start }}
              >
                <button
                  type="button"
                  aria-pressed={isChosen?.(choice)}
                  className={styles.choice}
                  title={toLabel(choice)}
                  onClick={() => onChoose(choice)}
                >
                  {toLabel(choice)}
                </button>
                {mark?.(choice)}
              </div>
            )
          })}
        </div>
      </div>
      {choices.length === 0 && <p className={styles.none}>No column has this name.</p>}
    </div>
  )
}

type PickerRow = { heading: string } | { choice: Choice }

const order: Column['source'][] = ['metadata', 'metric', 'parameter', 'other']

function toRows(known: Choice[], text: string): PickerRow[] {
  const words = text.toLowerCase().split(/\s+/)
  const found = known.filter((it) => {
    const label = toLabel(it).toLowerCase()
    return words.every((word) => label.includes(word))
  })
  const bySource = Map.groupBy(found, (it) => it.source)
  return order.flatMap((source): PickerRow[] => {
    const some = bySource.get(source)
    return some ? [{ heading: sourceNames[source] }, ...some.map((choice) => ({ choice }))] : []
  })
}

/** The columns to choose from: what every run has, and what the runs of the project have. */
export function toChoices(known: KnownColumn[]): Choice[] {
  const seen = new Map<ColumnId, Choice>()
  for (const it of known) {
    const id = toColumnId(it)
    if (id !== 'name' && !seen.has(id)) seen.set(id, { ...it, id })
  }
  return [...seen.values()]
}
