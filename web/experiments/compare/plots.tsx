import { type ReactNode, useState } from 'react'
import { Select } from '../../kit/field.tsx'
import { toRunColour } from '../../kit/run-colour.ts'
import { useIsDark } from '../../kit/theme.ts'
import styles from './compare.module.css'
import type { CompareSearch } from './compare-search.ts'
import { type ComparedRow, type ComparedRun, toAxis } from './compared.ts'

type Props = {
  runs: ComparedRun[]
  rows: ComparedRow[]
  x: string | undefined
  y: string | undefined
  onChange(change: Partial<CompareSearch>): void
}

const axesMax = 12

/** All runs over all columns that differ, and over two of them. A run under the pointer stands out in both. */
export function Plots({ runs, rows, x, y, onChange }: Props) {
  const [named, setNamed] = useState<string>()
  const differing = rows.filter((it) => it.differs)
  if (differing.length < 2) return <p className={styles.none}>The runs differ in fewer than two columns.</p>
  const byX = differing.find((it) => it.id === x) ?? (differing[0] as ComparedRow)
  const last = differing.findLast((it) => it.kind === 'metric' && it !== byX) ?? (differing.at(-1) as ComparedRow)
  const byY = differing.find((it) => it.id === y) ?? last
  const shared = { runs, named, onName: setNamed }
  return (
    <div className={styles.plots}>
      <figure>
        <figcaption>
          <h2>Parallel coordinates</h2>
          <span className={styles.absent}>{runs.find((it) => it.experimentKey === named)?.name}</span>
        </figcaption>
        <Parallel rows={differing.slice(0, axesMax)} {...shared} />
        {differing.length > axesMax && (
          <p className={styles.absent}>
            The first {axesMax} of {differing.length} columns that differ.
          </p>
        )}
      </figure>
      <figure>
        <figcaption>
          <h2>Scatter</h2>
          <Choice label="x" value={byX.id} rows={differing} onChange={(it) => onChange({ x: it })} />
          <Choice label="y" value={byY.id} rows={differing} onChange={(it) => onChange({ y: it })} />
        </figcaption>
        <Scatter byX={byX} byY={byY} {...shared} />
      </figure>
    </div>
  )
}

type ChoiceProps = { label: string; value: string; rows: ComparedRow[]; onChange(id: string): void }

function Choice({ label, value, rows, onChange }: ChoiceProps) {
  return (
    <span className={styles.choice}>
      <span aria-hidden="true">{label}</span>
      <Select aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
        {rows.map((it) => (
          <option key={it.id} value={it.id}>
            {it.name}
          </option>
        ))}
      </Select>
    </span>
  )
}

type Shared = { runs: ComparedRun[]; named: string | undefined; onName(key: string | undefined): void }

const width = 1200
const height = 320
const edge = { top: 32, bottom: 24, side: 80 }
const toY = (place: number) => height - edge.bottom - place * (height - edge.top - edge.bottom)

function Parallel({ runs, rows, ...shared }: Shared & { rows: ComparedRow[] }) {
  const axes = rows.map((row, at) => ({
    ...toAxis(row.values),
    row,
    x: edge.side + (at / Math.max(rows.length - 1, 1)) * (width - 2 * edge.side),
  }))
  return (
    <Drawing label={`Parallel coordinates of ${rows.length} columns`}>
      {runs.map((run, at) => {
        const points = axes.flatMap((it) => {
          const place = it.places[at]
          return place === undefined ? [] : [`${it.x.toFixed(1)},${toY(place).toFixed(1)}`]
        })
        return (
          <OfRun key={run.experimentKey} run={run} {...shared}>
            <polyline points={points.join(' ')} />
          </OfRun>
        )
      })}
      {axes.map(({ row, x, ticks }) => (
        <g key={row.id}>
          <line x1={x} x2={x} y1={toY(0)} y2={toY(1)} className={styles.axis} />
          <text x={x} y={14} textAnchor="middle" className={styles.axisName}>
            <title>{row.name}</title>
            {shorten(row.name, 16)}
          </text>
          {ticks.slice(0, 12).map((it) => (
            <text key={it.text} x={x + 6} y={toY(it.place) + 4} className={styles.tick}>
              {shorten(it.text, 12)}
            </text>
          ))}
        </g>
      ))}
    </Drawing>
  )
}

function Scatter({ runs, byX, byY, ...shared }: Shared & { byX: ComparedRow; byY: ComparedRow }) {
  const across = toAxis(byX.values)
  const up = toAxis(byY.values)
  const toX = (place: number) => edge.side + place * (width - 2 * edge.side)
  return (
    <Drawing label={`${byY.name} over ${byX.name}`}>
      <line x1={edge.side} x2={width - edge.side} y1={toY(0)} y2={toY(0)} className={styles.axis} />
      <line x1={edge.side} x2={edge.side} y1={toY(0)} y2={toY(1)} className={styles.axis} />
      {across.ticks.slice(0, 12).map((it) => (
        <text key={it.text} x={toX(it.place)} y={height - 6} textAnchor="middle" className={styles.tick}>
          {shorten(it.text, 14)}
        </text>
      ))}
      {up.ticks.slice(0, 12).map((it) => (
        <text key={it.text} x={edge.side - 10} y={toY(it.place) + 4} textAnchor="end" className={styles.tick}>
          {shorten(it.text, 10)}
        </text>
      ))}
      {runs.map((run, at) => {
        const x = across.places[at]
        const y = up.places[at]
        if (x === undefined || y === undefined) return null
        return (
          <OfRun key={run.experimentKey} run={run} {...shared}>
            <circle cx={toX(x)} cy={toY(y)} r="6" />
          </OfRun>
        )
      })}
    </Drawing>
  )
}

function Drawing({ label, children }: { label: string; children: ReactNode }) {
  return (
    <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label} className={styles.drawing}>
      {children}
    </svg>
  )
}

function OfRun({ run, named, onName, children }: Omit<Shared, 'runs'> & { run: ComparedRun; children: ReactNode }) {
  const isDark = useIsDark()
  const key = run.experimentKey
  const shade = named === undefined ? undefined : named === key ? 'named' : 'faint'
  return (
    <g
      className={styles.run}
      data-shade={shade}
      style={{ color: toRunColour(key, isDark) }}
      onPointerEnter={() => onName(key)}
      onPointerLeave={() => onName(undefined)}
    >
      <title>{run.name}</title>
      {children}
    </g>
  )
}

const shorten = (text: string, charactersMax: number) =>
  text.length <= charactersMax ? text : `…${text.slice(1 - charactersMax)}`
