import { type ReactNode, useId } from 'react'
import type { Segment, VersionCounts } from '../api/monitoring.ts'
import { Select } from '../kit/field.tsx'
import styles from './production.module.css'
import type { ProductionSearch } from './production-search.ts'
import { dayMs, toLength } from './words.ts'

const lengths = [3_600_000, 6 * 3_600_000, dayMs, 7 * dayMs]
const counts = [14, 30, 60, 90]

type Props = {
  search: ProductionSearch & { windows: number; interval: number }
  versions: VersionCounts[]
  segments: Segment[]
  /** Whether a version and a segment can be chosen. */
  hasParts: boolean
  onChange(change: ProductionSearch): void
}

/** Which events the page is about. */
export function ScopeTools({ search, versions, segments, hasParts, onChange }: Props) {
  const { windows, interval, version, segment } = search
  return (
    <div className={styles.tools}>
      <Choice label="Last" value={windows} onChange={(it) => onChange({ windows: Number(it), at: undefined })}>
        {[...new Set([...counts, windows])].map((it) => (
          <option key={it} value={it}>{`${it} windows`}</option>
        ))}
      </Choice>
      <Choice label="of" value={interval} onChange={(it) => onChange({ interval: Number(it), at: undefined })}>
        {[...new Set([...lengths, interval])].map((it) => (
          <option key={it} value={it}>
            {toLength(it)}
          </option>
        ))}
      </Choice>
      {hasParts && (
        <>
          <Choice label="Version" value={version ?? ''} onChange={(it) => onChange({ version: it || undefined })}>
            <option value="">all</option>
            {versions.map((it) => (
              <option key={it.modelVersion} value={it.modelVersion}>
                {it.modelVersion || 'none'}
              </option>
            ))}
          </Choice>
          <Choice label="Segment" value={segment ?? ''} onChange={(it) => onChange({ segment: it || undefined })}>
            <option value="">all events</option>
            {segments.map((it) => (
              <option key={it.segmentId}>{it.name}</option>
            ))}
          </Choice>
        </>
      )}
    </div>
  )
}

function Choice({
  label,
  value,
  onChange,
  children,
}: {
  label: string
  value: string | number
  onChange(value: string): void
  children: ReactNode
}) {
  const id = useId()
  return (
    <>
      <label htmlFor={id}>{label}</label>
      <Select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
        {children}
      </Select>
    </>
  )
}
