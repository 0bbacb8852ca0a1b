import { toRunColour, toSwatch } from '../kit/run-colour.ts'
import { toCount, toCountOf } from '../kit/text.ts'
import { useIsDark } from '../kit/theme.ts'
import { type Line, type Reading, readAt } from './line.ts'
import styles from './tooltip.module.css'

const linesMax = 12
const runsWidth = 330
const groupsWidth = 420
const distanceToCursor = 16
const headHeight = 42
const rowHeight = 18

/** A value of x, how much of x a pixel covers, and a place in the window. */
export type CursorPlace = { x: number; reach: number; left: number; top: number }

type Props = { lines: Line[]; at: CursorPlace; toX(x: number): string; isSmoothed: boolean; toY(y: number): string }

type ToText = (value: number | null) => string

/** The values of all runs at the cursor, the greatest first. Of many points it shows the mean and the extremes. */
export function Tooltip({ lines, at, toX, isSmoothed, toY }: Props) {
  const isDark = useIsDark()
  const toText: ToText = (value) => (value === null ? '–' : toY(value))
  const found = lines
    .flatMap((line) => {
      const read = readAt(line, at.x, at.reach)
      return read ? [{ line, read }] : []
    })
    .sort((a, b) => (b.read.drawn ?? Number.NEGATIVE_INFINITY) - (a.read.drawn ?? Number.NEGATIVE_INFINITY))
  const first = found[0]
  if (!first) return null
  const nearest = found.reduce((best, it) => (distance(it.read) < distance(best.read) ? it : best), first)
  const width = first.line.runs ? groupsWidth : runsWidth
  const isLeft = at.left + width + distanceToCursor > innerWidth
  const height = headHeight + rowHeight * Math.min(found.length, linesMax + 1)
  return (
    <div
      className={styles.tooltip}
      data-tooltip
      style={{
        width,
        top: Math.max(8, Math.min(at.top - 12, innerHeight - height - 8)),
        left: isLeft ? at.left - width - distanceToCursor : at.left + distanceToCursor,
      }}
    >
      <div className={styles.head}>
        <span>{toHead(nearest.read, toX)}</span>
        {nearest.read.count > 1 && <span className={styles.count}>{toCountOf(nearest.read.count, 'point')}</span>}
      </div>
      {found.slice(0, linesMax).map(({ line, read }) => (
        <div key={line.key} className={styles.line}>
          <span className={styles.dot} style={{ background: toSwatch(toRunColour(line.key, isDark), line.dash) }} />
          <span className={styles.name}>{line.name}</span>
          <span className={styles.value}>{toValue(read, isSmoothed, toText)}</span>
          <span className={styles.extremes}>
            {(read.count > 1 || read.runs) && `${toText(read.min)} … ${toText(read.max)}`}
          </span>
          {read.runs && <span className={styles.runs}>{toRuns(read.runs)}</span>}
        </div>
      ))}
      {found.length > linesMax && <div className={styles.more}>{`and ${found.length - linesMax} more`}</div>}
    </div>
  )

  function distance({ from, to }: Reading) {
    return Math.max(from - at.x, at.x - to, 0)
  }
}

function toHead({ from, to }: Reading, toX: Props['toX']): string {
  return from === to ? toX(from) : `${toX(from)} – ${toX(to).replace(/^(step|epoch) /, '')}`
}

const toRuns = ([least, most]: [number, number]) =>
  least === most ? toCountOf(most, 'run') : `${toCount(least)}–${toCountOf(most, 'run')}`

function toValue({ y, drawn, nonFinite }: Reading, isSmoothed: boolean, toText: ToText): string {
  if (y === null) return 'not finite'
  const value = isSmoothed ? `${toText(drawn)} (${toText(y)})` : toText(y)
  return nonFinite > 0 ? `${value}, ${toCountOf(nonFinite, 'value')} not finite` : value
}
