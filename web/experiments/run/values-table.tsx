import { useState } from 'react'
import { Input } from '../../kit/field.tsx'
import { toCount } from '../../kit/text.ts'
import styles from './run-page.module.css'

export type Row = { name: string; cells: { text: string; title?: string }[] }

const rowsMax = 300

type Props = { title: string; columns: string[]; rows: Row[]; empty: string }

/** Names with their values, and a search when there are many. */
export function ValuesTable({ title, columns, rows, empty }: Props) {
  const [search, setSearch] = useState('')
  const [isWhole, setWhole] = useState(false)
  const words = search.toLowerCase()
  const found = rows.filter(({ name, cells }) => `${name} ${cells[0]?.text}`.toLowerCase().includes(words))
  const shown = isWhole ? found : found.slice(0, rowsMax)
  return (
    <section className={styles.section} aria-label={title}>
      <div className={styles.sectionHeader}>
        <h2>{title}</h2>
        {rows.length > 0 && <span className={styles.faint}>{toCount(rows.length)}</span>}
        <span className={styles.gap} />
        {rows.length > 8 && (
          <Input
            type="search"
            aria-label={`Search ${title}`}
            placeholder="Search"
            className={styles.find}
            value={search}
            onChange={(event) => setSearch(event.target.value)}
          />
        )}
      </div>
      {rows.length === 0 ? (
        <p className={styles.faint}>{empty}</p>
      ) : (
        <table className={styles.table} data-columns={columns.length}>
          <thead>
            <tr>
              <th scope="col">Name</th>
              {columns.map((it) => (
                <th key={it} scope="col">
                  {it}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map(({ name, cells }) => (
              <tr key={name}>
                <th scope="row" title={name}>
                  {name}
                </th>
                {cells.map(({ text, title }, at) => (
                  <td key={columns[at]} title={title ?? text}>
                    {text}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {shown.length < found.length && (
        <button type="button" className={styles.more} onClick={() => setWhole(true)}>
          Show all {toCount(found.length)}
        </button>
      )}
      {rows.length > 0 && found.length === 0 && <p className={styles.faint}>Nothing has “{search}”.</p>}
    </section>
  )
}
