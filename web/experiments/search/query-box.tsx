import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { type KeyboardEvent, useEffect, useId, useRef, useState } from 'react'
import { type QueryCompletion, readCompletion, type Suggestion } from '../../api/query-completion.ts'
import { join } from '../../kit/button.tsx'
import { Input } from '../../kit/field.tsx'
import styles from './query-box.module.css'

const pauseMs = 120

type Props = {
  project: { workspaceName: string; projectName: string }
  archived: boolean
  query: string
  /** Takes a query that can be read. */
  onChange(query: string): void
}

/**
 * A box for queries. While somebody writes, it offers what may come next, and searches as soon as what is there can be read; where it
 * cannot, it says so once the writer has gone on or away.
 */
export function QueryBox({ project, archived, query, onChange }: Props) {
  const id = useId()
  const input = useRef<HTMLInputElement>(null)
  const [typed, setTyped] = useState(query)
  const [place, setPlace] = useState(query.length)
  const [isOpen, setOpen] = useState(false)
  const [active, setActive] = useState(-1)
  const [isSent, setSent] = useState(false)
  // The URL may change by itself: a view, or the way back.
  useEffect(() => setTyped(query), [query])
  const asked = usePaused({ query: typed, at: place }, pauseMs)
  const { data, isPlaceholderData } = useQuery({
    queryKey: ['query-completion', project, archived, asked],
    queryFn: ({ signal }) => readCompletion({ ...project, ...asked, ...(archived && { archived }) }, signal),
    enabled: isOpen || asked.query !== query,
    placeholderData: keepPreviousData,
    staleTime: 20_000,
  })
  const isCurrent = !isPlaceholderData && asked.query === typed && asked.at === place
  const canBeRead = data !== undefined && isCurrent && !data.error
  useEffect(() => {
    if (canBeRead && typed !== query) onChange(typed)
  })

  const options = isOpen && isCurrent ? (data?.suggestions ?? []) : []
  const chosen = options[active]
  const fault = toFault(data, typed, isSent || !isOpen)

  function choose({ text }: Suggestion, { from, to }: QueryCompletion) {
    const space = text.endsWith('(') || typed[to] === ' ' ? '' : ' '
    setTyped(typed.slice(0, from) + text + space + typed.slice(to))
    moveTo(from + text.length + 1)
    input.current?.focus()
  }

  function moveTo(at: number) {
    setPlace(at)
    setActive(-1)
    setSent(false)
    requestAnimationFrame(() => input.current?.setSelectionRange(at, at))
  }

  function onKeyDown(event: KeyboardEvent) {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      setOpen(true)
      const step = event.key === 'ArrowDown' ? 1 : -1
      setActive(((active + 1 + step + options.length + 1) % (options.length + 1)) - 1)
    } else if ((event.key === 'Enter' || event.key === 'Tab') && chosen && data) {
      event.preventDefault()
      choose(chosen, data)
    } else if (event.key === 'Enter') {
      setSent(true)
      setOpen(false)
    } else if (event.key === 'Escape' && isOpen) {
      event.preventDefault()
      setOpen(false)
    }
  }

  return (
    <div className={styles.frame}>
      <Input
        ref={input}
        type="search"
        role="combobox"
        aria-label="Search runs"
        aria-expanded={options.length > 0}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={chosen ? `${id}-${active}` : undefined}
        aria-invalid={fault !== undefined}
        aria-describedby={fault ? `${id}-fault` : undefined}
        placeholder="Search: words, or metric.loss < 0.1"
        className={styles.box}
        value={typed}
        onChange={({ target }) => {
          setTyped(target.value)
          setOpen(target.value !== '')
          setPlace(target.selectionStart ?? target.value.length)
          setActive(-1)
          setSent(false)
        }}
        onSelect={({ currentTarget }) => setPlace(currentTarget.selectionStart ?? typed.length)}
        onFocus={() => setOpen(typed !== '')}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      {options.length > 0 && data && (
        <div id={`${id}-list`} role="listbox" aria-label="What may come next" className={styles.list}>
          {options.map((it, at) => (
            <div
              key={`${it.is}${it.text}`}
              id={`${id}-${at}`}
              role="option"
              tabIndex={-1}
              aria-selected={at === active}
              className={join(styles.option, at === active && styles.active)}
              // Before the box loses the focus.
              onPointerDown={(event) => {
                event.preventDefault()
                choose(it, data)
              }}
            >
              {it.text}
            </div>
          ))}
        </div>
      )}
      {fault && (
        <p id={`${id}-fault`} role="alert" className={styles.fault}>
          {fault}
        </p>
      )}
    </div>
  )
}

/** What is missing at the end is told only to somebody who has finished writing. */
function toFault(data: QueryCompletion | undefined, typed: string, isFinished: boolean): string | undefined {
  if (!data?.error || data.error.at > typed.length) return undefined
  const isAtEnd = data.error.at >= typed.trimEnd().length
  return isAtEnd && !isFinished ? undefined : `Character ${data.error.at + 1}: ${data.error.message}`
}

/** A value once it has not changed for some time. */
function usePaused<T>(value: T, ms: number): T {
  const [paused, setPaused] = useState(value)
  const key = JSON.stringify(value)
  useEffect(() => {
    const timer = setTimeout(() => setPaused(JSON.parse(key) as T), ms)
    return () => clearTimeout(timer)
  }, [key, ms])
  return paused
}
