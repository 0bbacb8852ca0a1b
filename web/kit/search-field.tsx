import { useEffect, useState } from 'react'
import { Input } from './field.tsx'

const writtenMs = 80

type Props = {
  label: string
  placeholder?: string
  className?: string
  /** The id of a `datalist` with what may be meant. */
  list?: string
  text: string
  onChange(text: string): void
}

/** Searches while the reader types, a moment after the last key. */
export function SearchField({ label, placeholder = label, className, list, text, onChange }: Props) {
  const [typed, setTyped] = useState(text)
  // The URL may change by itself: a view, or the way back.
  useEffect(() => setTyped(text), [text])
  useEffect(() => {
    if (typed === text) return
    const timer = setTimeout(() => onChange(typed), writtenMs)
    return () => clearTimeout(timer)
  })
  return (
    <Input
      type="search"
      aria-label={label}
      placeholder={placeholder}
      className={className}
      list={list}
      value={typed}
      onChange={(event) => setTyped(event.target.value)}
    />
  )
}
