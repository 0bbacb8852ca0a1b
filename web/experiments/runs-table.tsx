import { useVirtualizer } from '@tanstack/react-virtual'
import { memo, type ReactNode, useEffect, useRef, useState } from 'react'
import type { Run, Value } from '../api/runs.ts'
import { join } from '../kit/button.tsx'
import { EyeIcon, EyeOffIcon, RightIcon } from '../kit/icons.tsx'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { toRunColour, toSwatch } from '../kit/run-colour.ts'
import { toCount, toCountOf } from '../kit/text.ts'
import { useIsDark } from '../kit/theme.ts'
import { Cell, State } from './cells.tsx'
import { type ColumnId, type LaidColumn, parseColumnId, type TableColumn, toLabel } from './columns.ts'
import styles from './runs-table.module.css'
import { type HeadActions, TableHead } from './table-head.tsx'
import type { Row } from './use-runs.ts'

export type RowActions = {
  select(key: string, isSelected: boolean, withShift: boolean): void
  show(key: string, isShown: boolean): void
  focus(key: string): void
  toggleGroup(path: Value[], isOpen: boolean): void
}

type Props = {
  workspace: string
  project: string
  rows: Row[]
  columns: TableColumn[]
  groupColumns: TableColumn[]
  sort: string[]
  selected: ReadonlySet<string>
  isShown(key: string): boolean
  /** What tells the lines of shown runs and groups apart that have like colours. */
  dashes: ReadonlyMap<string, number>
  /** The colour of a group's line on the charts, if it has one. */
  toGroupColour(path: Value[], isDark: boolean): string | undefined
  current: string | undefined
  hasMore: boolean
  onMore(): void
  actions: RowActions
  head: HeadActions
  /** The box that selects all rows. */
  allSelected: boolean | 'some'
  onSelectAll(isSelected: boolean): void
  showHead: ReactNode
}

const rowHeight = 32
/** Rows before the end at which the next page is fetched. */
const moreAt = 60
const checkWidth = 36
const eyeWidth = 32

/** The rows in sight and a few around them; the head and the pinned columns stay in place. */
export function RunsTable(props: Props) {
  const { rows, columns, hasMore, onMore, current, actions } = props
  const frame = useRef<HTMLDivElement>(null)
  const [resized, setResized] = useState<{ id: ColumnId; width: number }>()
  const isDark = useIsDark()
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    scrollPaddingStart: rowHeight * 2,
  })
  const items = virtual.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  useEffect(() => {
    if (hasMore && last > rows.length - moreAt) onMore()
  }, [hasMore, last, rows.length, onMore])
  const currentAt =
    current === undefined ? -1 : rows.findIndex((it) => it.kind === 'run' && it.run.experimentKey === current)
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a move of the current row scrolls
  useEffect(() => {
    if (currentAt >= 0) virtual.scrollToIndex(currentAt, { align: 'auto' })
  }, [current])

  const laid = layOut(columns, resized)
  const width = laid.reduce((sum, it) => sum + it.width, checkWidth + eyeWidth)
  return (
    <div
      ref={frame}
      role="grid"
      aria-label="Runs"
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length + 2}
      tabIndex={0}
      className={styles.frame}
    >
      <div className={styles.inside} style={{ width, height: virtual.getTotalSize() + rowHeight }}>
        <TableHead
          columns={laid}
          sort={props.sort}
          actions={props.head}
          onResize={setResized}
          allSelected={props.allSelected}
          onSelectAll={props.onSelectAll}
          showHead={props.showHead}
        />
        {items.map((it) => {
          const row = rows[it.index] as Row
          const top = it.start + rowHeight
          if (row.kind === 'group') {
            return (
              <GroupRow
                key={`g${JSON.stringify(row.path)}`}
                row={row}
                top={top}
                columns={props.groupColumns}
                colour={props.toGroupColour(row.path, isDark)}
                actions={actions}
              />
            )
          }
          if (row.kind === 'rest') {
            return (
              <div key={`r${JSON.stringify(row.path)}`} role="row" className={styles.row} style={{ top }}>
                <span className={styles.rest}>
                  {toCount(row.count)} more in this group: filter by its value to see them all.
                </span>
              </div>
            )
          }
          const key = row.run.experimentKey
          return (
            <RunRow
              key={key}
              run={row.run}
              valueColumns={row.columns}
              index={it.index}
              top={top}
              indent={row.level * 20}
              columns={laid}
              path={toPagePath(props.workspace, props.project, key)}
              colour={toRunColour(key, isDark)}
              dash={props.dashes.get(key) ?? 0}
              isSelected={props.selected.has(key)}
              isShown={props.isShown(key)}
              isCurrent={key === current}
              actions={actions}
            />
          )
        })}
      </div>
    </div>
  )
}

/** Where each pinned column sticks, and the width of one that is being resized. */
function layOut(columns: TableColumn[], resized: { id: ColumnId; width: number } | undefined): LaidColumn[] {
  let left = checkWidth + eyeWidth
  return columns.map((it) => {
    const width = it.id === resized?.id ? resized.width : it.width
    const laid = { ...it, width, left: it.isPinned ? left : undefined }
    if (it.isPinned) left += width
    return laid
  })
}

type RunRowProps = {
  run: Run
  /** The columns that its values are of. */
  valueColumns: ColumnId[]
  index: number
  top: number
  indent: number
  columns: LaidColumn[]
  path: string
  colour: string
  dash: number
  isSelected: boolean
  isShown: boolean
  isCurrent: boolean
  actions: RowActions
}

const RunRow = memo(
  function RunRow({
    run,
    valueColumns,
    index,
    top,
    indent,
    columns,
    path,
    colour,
    dash,
    isSelected,
    isShown,
    isCurrent,
    actions,
  }: RunRowProps) {
    const key = run.experimentKey
    const isStateHidden = !columns.some((it) => it.id === 'state')
    return (
      <div
        role="row"
        aria-rowindex={index + 2}
        aria-selected={isSelected}
        data-current={isCurrent || undefined}
        className={styles.row}
        style={{ top }}
      >
        <span role="gridcell" className={styles.check} tabIndex={-1}>
          <input
            type="checkbox"
            aria-label={`Select ${run.name}`}
            checked={isSelected}
            onChange={(event) => actions.select(key, event.target.checked, (event.nativeEvent as MouseEvent).shiftKey)}
          />
        </span>
        <span role="gridcell" className={styles.eye} tabIndex={-1}>
          <button
            type="button"
            aria-pressed={isShown}
            aria-label={`Show ${run.name} on the charts`}
            title={isShown ? 'Hide on the charts (h)' : 'Show on the charts (h)'}
            onClick={() => actions.show(key, !isShown)}
          >
            <span
              className={styles.dot}
              style={isShown ? { background: toSwatch(colour, dash) } : { borderColor: colour }}
            />
            <span className={styles.eyeIcon}>{isShown ? <EyeIcon size={14} /> : <EyeOffIcon size={14} />}</span>
          </button>
        </span>
        {columns.map((it, at) => (
          <span
            key={it.id}
            role="gridcell"
            tabIndex={-1}
            className={join(styles.cell, it.type === 'number' && styles.number, it.isPinned && styles.pinned)}
            style={{ width: it.width, left: it.left, ...(at === 0 && indent > 0 && { paddingLeft: indent }) }}
          >
            {it.id === 'name' ? (
              <PageLink path={path} className={styles.name} title={run.name} onFocus={() => actions.focus(key)}>
                {isStateHidden && run.state && run.state !== 'finished' && <State state={run.state} isShort />}
                {run.name}
              </PageLink>
            ) : (
              <Cell column={it.id} type={it.type} value={run.values[valueColumns.indexOf(it.id)] ?? null} />
            )}
          </span>
        ))}
      </div>
    )
  },
  // The path follows from the run, and `columns` is made anew by each drawing of the table.
  (a, b) =>
    a.run === b.run &&
    a.valueColumns === b.valueColumns &&
    a.top === b.top &&
    a.index === b.index &&
    a.colour === b.colour &&
    a.dash === b.dash &&
    a.isSelected === b.isSelected &&
    a.isShown === b.isShown &&
    a.isCurrent === b.isCurrent &&
    a.indent === b.indent &&
    a.columns.length === b.columns.length &&
    a.columns.every((it, at) => {
      const other = b.columns[at] as LaidColumn
      return it.id === other.id && it.width === other.width && it.left === other.left && it.type === other.type
    }),
)

type GroupRowProps = {
  row: Extract<Row, { kind: 'group' }>
  top: number
  columns: TableColumn[]
  /** Of its line on the charts, if it has one. */
  colour: string | undefined
  actions: RowActions
}

function GroupRow({ row, top, columns, colour, actions }: GroupRowProps) {
  const column = columns[row.level]
  const value = row.path.at(-1) ?? null
  return (
    <div role="row" className={join(styles.row, styles.group)} style={{ top }}>
      <span role="gridcell" className={styles.groupHead} style={{ paddingLeft: 12 + row.level * 20 }} tabIndex={-1}>
        <button
          type="button"
          aria-expanded={row.isOpen}
          className={styles.groupButton}
          onClick={() => actions.toggleGroup(row.path, !row.isOpen)}
        >
          <span className={styles.arrow}>
            <RightIcon size={14} />
          </span>
          {row.isLeaf && colour && <span className={styles.dot} style={{ background: colour }} />}
          <span className={styles.groupColumn}>{column && `${toLabel(parseColumnId(column.id))}:`}</span>
          <span className={styles.groupValue}>
            {value === null ? 'none' : column && <Cell column={column.id} type={column.type} value={value} />}
          </span>
          <span className={styles.groupCount}>{toCountOf(row.count, 'run')}</span>
        </button>
      </span>
    </div>
  )
}
