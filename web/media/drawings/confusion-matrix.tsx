import { toCount, toNumber } from '../../kit/text.ts'
import { Canvas } from './canvas.tsx'
import styles from './drawings.module.css'
import { isObject, toNumbers } from './logged-json.ts'

type Shape = { title: string; labels: string[]; rows: number[][]; rowLabel: string; columnLabel: string }

/** Beyond so many classes the matrix is a picture: a table of as many cells is slow, and nobody reads it. */
const tableClassesMax = 60

/** What `log_confusion_matrix` logs: rows are actual classes, columns are what they were taken for. */
export function toConfusionMatrix(content: unknown): Shape | undefined {
  if (!isObject(content) || !Array.isArray(content.matrix)) return undefined
  const rows = content.matrix.map(toNumbers)
  if (rows.some((it) => it === undefined || it.length !== rows.length)) return undefined
  const labels = Array.isArray(content.labels) ? content.labels.map(String) : []
  const text = (it: unknown, absent: string) => (typeof it === 'string' && it !== '' ? it : absent)
  return {
    title: text(content.title, 'Confusion matrix'),
    labels: rows.map((_, at) => labels[at] ?? String(at)),
    rows: rows as number[][],
    rowLabel: text(content.rowLabel, 'Actual'),
    columnLabel: text(content.columnLabel, 'Predicted'),
  }
}

export function ConfusionMatrix({ matrix }: { matrix: Shape }) {
  const { title, labels, rows, rowLabel, columnLabel } = matrix
  const right = rows.reduce((sum, row, at) => sum + (row[at] as number), 0)
  const total = rows.reduce((sum, row) => sum + row.reduce((a, b) => a + b, 0), 0)
  const most = rows.reduce((a, row) => Math.max(a, ...row), 1)
  const summary = `${toCount(total)} counted, ${total === 0 ? '0' : toNumber((100 * right) / total)} % on the diagonal`
  if (labels.length > tableClassesMax) {
    return (
      <>
        <Canvas
          label={`${title}: ${labels.length} classes, ${summary}`}
          height={420}
          of={rows}
          draw={(to, size, ink) => {
            const side = Math.min(size.width, size.height) / rows.length
            to.fillStyle = ink.accent
            for (const [at, row] of rows.entries()) {
              for (const [column, count] of row.entries()) {
                if (count <= 0) continue
                to.globalAlpha = 0.15 + 0.85 * Math.sqrt(count / most)
                to.fillRect(column * side, at * side, Math.max(side, 1), Math.max(side, 1))
              }
            }
            to.globalAlpha = 1
          }}
        />
        <p className={styles.facts}>
          {`${labels.length} classes; rows: ${rowLabel}, columns: ${columnLabel}; ${summary}. Download the file to read the counts.`}
        </p>
      </>
    )
  }
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it is scrolled by keyboard */}
      <section className={styles.scroll} tabIndex={0} aria-label={title}>
        <table className={styles.matrix}>
          <caption>{title}</caption>
          <thead>
            <tr>
              <th scope="col" className={styles.corner}>{`${rowLabel} ↓ ${columnLabel} →`}</th>
              {labels.map((it, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: a class is its place
                <th key={at} scope="col" title={it}>
                  {it}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a class is its place
              <tr key={at}>
                <th scope="row" title={labels[at]}>
                  {labels[at]}
                </th>
                {row.map((count, column) => {
                  const share = count <= 0 ? 0 : Math.round(8 + 92 * Math.sqrt(count / most))
                  return (
                    <td
                      // biome-ignore lint/suspicious/noArrayIndexKey: a class is its place
                      key={column}
                      ref={(cell) => cell?.style.setProperty('--share', `${share < 60 ? share / 2 : share}%`)}
                      data-strong={share >= 60 || undefined}
                      title={`${rowLabel} ${labels[at]}, ${columnLabel} ${labels[column]}: ${toCount(count)}`}
                    >
                      {count === 0 ? '' : toCount(count)}
                    </td>
                  )
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <p className={styles.facts}>{summary}</p>
    </>
  )
}
