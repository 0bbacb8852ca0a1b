import type { Level } from './drift-level.ts'
import styles from './strip.module.css'

const levels = [null, 0, 1, 2, 3] as const

/** The place of a cell in units of one; a steady one is smaller, so that grey or small pictures tell it, too. */
function toCell(x: number, y: number, level: Level): string {
  const inset = level === null ? 0.36 : level === 0 ? 0.24 : 0.05
  const size = 1 - 2 * inset
  return `M${(x + inset).toFixed(2)} ${(y + inset).toFixed(2)}h${size.toFixed(2)}v${size.toFixed(2)}h-${size.toFixed(2)}z`
}

/** One path for each level: a map of ten thousand cells is five elements. */
export function Cells({ rows }: { rows: Level[][] }) {
  const paths = new Map<Level, string[]>(levels.map((it) => [it, []]))
  for (const [y, row] of rows.entries()) {
    for (const [x, level] of row.entries()) paths.get(level)?.push(toCell(x, y, level))
  }
  return (
    <>
      {levels.map((it) => (
        <path key={String(it)} className={styles[`level${it ?? 'None'}`]} d={(paths.get(it) ?? []).join('')} />
      ))}
    </>
  )
}

/** The levels of windows in a row. `label` says what it shows. */
export function Strip({ levels, label }: { levels: Level[]; label: string }) {
  return (
    <svg
      role="img"
      aria-label={label}
      className={styles.strip}
      viewBox={`0 0 ${Math.max(1, levels.length)} 1`}
      preserveAspectRatio="none"
    >
      <Cells rows={[levels]} />
    </svg>
  )
}

/** Columns for the counts of days. */
export function Volume({ counts, label }: { counts: number[]; label: string }) {
  const most = Math.max(1, ...counts)
  const d = counts.map((it, x) => (it === 0 ? '' : `M${x + 0.1} 1V${1 - Math.max(0.04, it / most)}h.8V1z`)).join('')
  return (
    <svg
      role="img"
      aria-label={label}
      className={styles.volume}
      viewBox={`0 0 ${counts.length} 1`}
      preserveAspectRatio="none"
    >
      <path d={d} />
    </svg>
  )
}

const texts = {
  feature: ['steady', 'drifted', 'twice the threshold', 'four times'],
  model: ['steady', 'a quarter of the features drifted', 'half: the model drifted', 'three quarters'],
} as const

/** What the levels mean for one feature, or for a model. */
export function Legend({ of }: { of: keyof typeof texts }) {
  return (
    <ul className={styles.legend} aria-label="Legend">
      {([0, 1, 2, 3, null] as const).map((level) => (
        <li key={String(level)}>
          <svg aria-hidden="true" viewBox="0 0 1 1">
            <Cells rows={[[level]]} />
          </svg>
          {level === null ? 'no verdict' : texts[of][level]}
        </li>
      ))}
    </ul>
  )
}
