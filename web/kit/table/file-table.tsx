import { useQueries, useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import type { FilesOf, Rows } from '../../api/artifacts/files.ts'
import { isParquet, tableRows } from '../../api/artifacts/parquet.ts'
import { Checkbox, Input } from '../field.tsx'
import { ErrorPlace, LoadingPlace } from '../places.tsx'
import { toCount, toCountOf } from '../text.ts'
import styles from './file-table.module.css'

const rowHeight = 28
const blockRows = 200
/** Browsers draw no element that is higher than some ten million pixels: of longer tables the bar moves by more than it shows. */
const heightMax = 8_000_000
const columnsShown = 200

type Props = { of: FilesOf; assetId: string; fileName: string; label?: string; height?: number }

/** A table that a file holds. Only the rows on the screen are read and drawn. */
export function FileTable({ of, assetId, fileName, label = fileName, height = 320 }: Props) {
  const [header, setHeader] = useState<boolean>()
  const namesColumns = isParquet(fileName)
  const file = { of, assetId, fileName, columnsMax: columnsShown }
  const rowsFrom = (from: number) =>
    tableRows(file, { from, count: blockRows, ...(header !== undefined && { header }) })
  const first = useQuery(rowsFrom(0))
  const frame = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const [room, setRoom] = useState(height)
  useEffect(() => {
    const element = frame.current
    if (!element) return
    const watch = new ResizeObserver(() => setRoom(element.clientHeight))
    watch.observe(element)
    return () => watch.disconnect()
  })
  const total = first.data?.total ?? 0
  const seen = Math.max(1, Math.ceil(room / rowHeight) - 1)
  const all = (total + 1) * rowHeight
  const drawn = Math.min(all, heightMax)
  const range = Math.max(1, drawn - room)
  const last = Math.max(0, total - seen + 1)
  const begin = all === drawn ? Math.floor(top / rowHeight) : Math.round(Math.min(1, top / range) * last)
  const end = Math.min(total, begin + seen + 1)
  const blocks = toBlocks(begin, end)
  const read = useQueries({ queries: blocks.map(rowsFrom) })
  if (first.error) return <ErrorPlace error={first.error} onRetry={first.refetch} />
  if (!first.data) return <LoadingPlace rows={4} />
  const { columns } = first.data
  const shown = columns.slice(0, columnsShown)
  const error = read.find((it) => it.error)?.error
  function goTo(row: number) {
    const to = Math.min(Math.max(row - 1, 0), Math.max(0, total - 1))
    frame.current?.scrollTo({ top: all === drawn ? to * rowHeight : (Math.min(to, last) / Math.max(1, last)) * range })
  }
  return (
    <div className={styles.view}>
      <div className={styles.bar}>
        <span className={styles.faint} role="status">
          {`${toCountOf(total, 'row')}, ${toCountOf(columns.length, 'column')}`}
          {columns.length > columnsShown && `; the first ${columnsShown} columns are shown, download it to see all`}
        </span>
        <span className={styles.gap} />
        {!namesColumns && (
          <Checkbox checked={header ?? first.data.header} onChange={(event) => setHeader(event.target.checked)}>
            First row has names
          </Checkbox>
        )}
        <form
          onSubmit={(event) => {
            event.preventDefault()
            goTo(Number(new FormData(event.currentTarget).get('row')))
          }}
        >
          <Input
            name="row"
            type="number"
            min={1}
            max={Math.max(1, total)}
            aria-label="Go to row"
            placeholder="Go to row"
            className={styles.goTo}
          />
        </form>
      </div>
      {error && <ErrorPlace error={error} onRetry={() => read.map((it) => it.refetch())} />}
      <div
        ref={frame}
        className={styles.frame}
        style={{ height: Math.min(height, all + 16) }}
        role="region"
        aria-label={`Rows of ${label}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it is scrolled by keyboard
        tabIndex={0}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <div style={{ height: drawn }} className={styles.all}>
          <table
            className={styles.table}
            aria-rowcount={total + 1}
            style={{ top: all === drawn ? begin * rowHeight : top }}
          >
            <thead>
              <tr aria-rowindex={1}>
                <th scope="col" className={styles.number}>
                  Row
                </th>
                {shown.map((it, at) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: a column is its place
                  <th key={at} scope="col" title={it}>
                    {it || <span className={styles.faint}>{at + 1}</span>}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {Array.from({ length: end - begin }, (_, at) => begin + at).map((row) => {
                const block = Math.floor(row / blockRows)
                const data = read[blocks.indexOf(block * blockRows)]?.data
                return <TableRow key={row} row={row} data={data} columns={shown.length} />
              })}
            </tbody>
          </table>
        </div>
      </div>
    </div>
  )
}

function TableRow({ row, data, columns }: { row: number; data: Rows | undefined; columns: number }) {
  const cells = data?.rows[row - data.from]
  return (
    <tr aria-rowindex={row + 2}>
      <th scope="row" className={styles.number}>
        {toCount(row + 1)}
      </th>
      {Array.from({ length: columns }, (_, at) => {
        const cell = cells?.[at]
        const cut = data?.cut.find((it) => it.row === row - data.from && it.column === at)
        const isNumber = typeof cell === 'string' && cell !== '' && Number.isFinite(Number(cell))
        const whole = cut ? `${cell}… (${toCount(cut.characters)} characters)` : (cell ?? undefined)
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: a column is its place
          <td key={at} data-number={isNumber || undefined} title={whole}>
            {cells === undefined ? '' : cell === null ? <span className={styles.faint}>null</span> : cell}
            {cut && '…'}
          </td>
        )
      })}
    </tr>
  )
}

function toBlocks(begin: number, end: number): number[] {
  const first = Math.floor(begin / blockRows)
  const last = Math.floor(Math.max(begin, end - 1) / blockRows)
  return Array.from({ length: last - first + 1 }, (_, at) => (first + at) * blockRows)
}
