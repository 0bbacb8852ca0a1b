import { type DragEvent, type PointerEvent, type ReactNode, useState } from 'react'
import { IconButton, join } from '../kit/button.tsx'
import { DownArrowIcon, DownIcon, GroupIcon, PinIcon, UpArrowIcon } from '../kit/icons.tsx'
import { Menu, MenuChoice, MenuItem, MenuLabel, MenuLine } from '../kit/menu.tsx'
import {
  type ColumnId,
  type LaidColumn,
  parseColumnId,
  toColumnId,
  toHint,
  toLabel,
  widthMax,
  widthMin,
} from './columns.ts'
import styles from './runs-table.module.css'

export type HeadActions = {
  sort(id: ColumnId, order?: 'asc' | 'desc'): void
  resize(id: ColumnId, width: number): void
  /** Puts a column where another is. */
  move(id: ColumnId, to: ColumnId): void
  pin(id: ColumnId, isPinned: boolean): void
  remove(id: ColumnId): void
  group(id: ColumnId): void
  /** Puts another column in the place of this one. */
  replace(id: ColumnId, by: ColumnId): void
}

type Props = {
  columns: LaidColumn[]
  sort: string[]
  actions: HeadActions
  onResize(resized: { id: ColumnId; width: number } | undefined): void
  allSelected: boolean | 'some'
  onSelectAll(isSelected: boolean): void
  showHead: ReactNode
}

export function TableHead({ columns, sort, actions, onResize, allSelected, onSelectAll, showHead }: Props) {
  const [dropAt, setDropAt] = useState<ColumnId>()
  return (
    <div role="row" aria-rowindex={1} className={styles.head}>
      <span role="columnheader" className={styles.check} tabIndex={-1}>
        <input
          type="checkbox"
          aria-label="Select all runs that are loaded"
          checked={allSelected === true}
          ref={(it) => {
            if (it) it.indeterminate = allSelected === 'some'
          }}
          onChange={(event) => onSelectAll(event.target.checked)}
        />
      </span>
      <span role="columnheader" className={styles.eye} tabIndex={-1}>
        {showHead}
      </span>
      {columns.map((it, at) => (
        <HeadCell
          key={it.id}
          column={it}
          before={columns[at - 1]?.id}
          after={columns[at + 1]?.id}
          order={sort.includes(it.id) ? 'asc' : sort.includes(`-${it.id}`) ? 'desc' : undefined}
          isDropAt={dropAt === it.id}
          onDropAt={setDropAt}
          actions={actions}
          onResize={onResize}
        />
      ))}
    </div>
  )
}

type HeadCellProps = {
  column: LaidColumn
  before: ColumnId | undefined
  after: ColumnId | undefined
  order: 'asc' | 'desc' | undefined
  isDropAt: boolean
  onDropAt(id: ColumnId | undefined): void
  actions: HeadActions
  onResize: Props['onResize']
}

const dragType = 'text/x-svc-column'

function HeadCell({ column, before, after, order, isDropAt, onDropAt, actions, onResize }: HeadCellProps) {
  const { id, type, width, left, isPinned } = column
  const parsed = parseColumnId(id)
  const label = toLabel(parsed)
  const isName = id === 'name'
  const drag = {
    draggable: !isName,
    onDragStart: (event: DragEvent) => event.dataTransfer.setData(dragType, id),
    onDragOver: (event: DragEvent) => {
      if (isName || !event.dataTransfer.types.includes(dragType)) return
      event.preventDefault()
      onDropAt(id)
    },
    onDragLeave: () => onDropAt(undefined),
    onDrop: (event: DragEvent) => {
      onDropAt(undefined)
      actions.move(event.dataTransfer.getData(dragType), id)
    },
  }
  return (
    <span
      role="columnheader"
      tabIndex={-1}
      aria-sort={order === 'asc' ? 'ascending' : order === 'desc' ? 'descending' : undefined}
      className={join(styles.headCell, type === 'number' && styles.number, isPinned && styles.pinned)}
      data-drop={isDropAt || undefined}
      style={{ width, left }}
      {...drag}
    >
      <button type="button" className={styles.sort} title={label} onClick={() => actions.sort(id)}>
        <span className={styles.label}>{label}</span>
        {toHint(parsed) && <span className={styles.headHint}>{toHint(parsed)}</span>}
        {order === 'asc' && <UpArrowIcon size={12} />}
        {order === 'desc' && <DownArrowIcon size={12} />}
      </button>
      <Menu
        trigger={
          <IconButton label={`Options of ${label}`} size="small" className={styles.headMenu}>
            <DownIcon size={14} />
          </IconButton>
        }
      >
        <MenuItem icon={<UpArrowIcon />} onSelect={() => actions.sort(id, 'asc')}>
          Sort upwards
        </MenuItem>
        <MenuItem icon={<DownArrowIcon />} onSelect={() => actions.sort(id, 'desc')}>
          Sort downwards
        </MenuItem>
        {parsed.source === 'metric' && (
          <>
            <MenuLine />
            <MenuLabel>Show of each run</MenuLabel>
            <MenuChoice
              value={parsed.of ?? 'last'}
              onChange={(of) => actions.replace(id, toColumnId({ ...parsed, of }))}
              choices={[
                { value: 'last', label: 'Last value' },
                { value: 'min', label: 'Least value' },
                { value: 'max', label: 'Greatest value' },
              ]}
            />
          </>
        )}
        <MenuLine />
        {!isName && (
          <MenuItem icon={<PinIcon />} onSelect={() => actions.pin(id, !isPinned)}>
            {isPinned ? 'Unpin' : 'Pin to the left'}
          </MenuItem>
        )}
        {!isName && (
          <MenuItem icon={<GroupIcon />} onSelect={() => actions.group(id)}>
            Group by it
          </MenuItem>
        )}
        {!isName && before !== undefined && before !== 'name' && (
          <MenuItem onSelect={() => actions.move(id, before)}>Move left</MenuItem>
        )}
        {!isName && after !== undefined && <MenuItem onSelect={() => actions.move(id, after)}>Move right</MenuItem>}
        <MenuItem onSelect={() => actions.resize(id, Math.min(width + 48, widthMax))}>Wider</MenuItem>
        <MenuItem onSelect={() => actions.resize(id, Math.max(width - 48, widthMin))}>Narrower</MenuItem>
        {!isName && (
          <>
            <MenuLine />
            <MenuItem onSelect={() => actions.remove(id)}>Hide the column</MenuItem>
          </>
        )}
      </Menu>
      <Resizer id={id} width={width} onResize={onResize} onDone={(it) => actions.resize(id, it)} />
    </span>
  )
}

type ResizerProps = { id: ColumnId; width: number; onResize: Props['onResize']; onDone(width: number): void }

/** The edge of a column. The keyboard has Wider and Narrower in the menu. */
function Resizer({ id, width, onResize, onDone }: ResizerProps) {
  function start(event: PointerEvent<HTMLSpanElement>) {
    event.preventDefault()
    event.stopPropagation()
    const { currentTarget: edge, clientX, pointerId } = event
    edge.setPointerCapture(pointerId)
    const toWidth = (it: { clientX: number }) =>
      Math.round(Math.min(Math.max(width + it.clientX - clientX, widthMin), widthMax))
    edge.onpointermove = (it) => onResize({ id, width: toWidth(it) })
    edge.onpointerup = (it) => {
      edge.onpointermove = null
      edge.onpointerup = null
      onResize(undefined)
      onDone(toWidth(it))
    }
  }
  return (
    <span
      className={styles.edge}
      aria-hidden="true"
      onPointerDown={start}
      draggable
      onDragStart={(it) => it.preventDefault()}
    />
  )
}
