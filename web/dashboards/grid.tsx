import {
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from 'react'
import type { Panel } from '../api/dashboards.ts'
import { IconButton } from '../kit/button.tsx'
import { DotsIcon, MoveIcon, PencilIcon, TrashIcon } from '../kit/icons.tsx'
import { Menu, MenuItem } from '../kit/menu.tsx'
import { PageLink } from '../kit/page-link.tsx'
import styles from './dashboards.module.css'
import { columnsMax, heightMax, kinds, toTitle, widthMin } from './panel-kinds.ts'

type Size = Pick<Panel, 'width' | 'height'>
type Props = {
  panels: Panel[]
  isEditing: boolean
  /** A new panel, which stands below the others: it is scrolled to, and the keyboard goes on there. */
  addedId: string | undefined
  /** Both say how to change what there is then: keys may come faster than a change is on the page. */
  onMove(work: (panels: Panel[]) => Panel[]): void
  onResize(id: string, work: (size: Size) => Size): void
  onEdit(panel: Panel): void
  onRemove(panel: Panel): void
  /** The page that has more of what a panel shows. */
  toPath(panel: Panel): string | undefined
  children(panel: Panel): ReactNode
}

/** The panels in twelve columns, in the order of reading. They are moved and resized by pointer or with the arrow keys. */
export function Grid({ panels, isEditing, addedId, onMove, onResize, onEdit, onRemove, toPath, children }: Props) {
  const grid = useRef<HTMLDivElement>(null)
  const [dragged, setDragged] = useState<{ id: string; to: string }>()
  const [sized, setSized] = useState<{ id: string } & Size>()
  const moved = useRef<string>(undefined)
  const shown = dragged ? toMoved(panels, dragged.id, dragged.to) : panels
  const order = shown.map((it) => it.id).join()
  // An element that changes its place loses the focus: the key is pressed again on the same handle.
  // biome-ignore lint/correctness/useExhaustiveDependencies: after each change of the order
  useLayoutEffect(() => {
    if (moved.current === undefined) return
    grid.current?.querySelector<HTMLElement>(`[data-panel="${moved.current}"] [data-handle]`)?.focus()
    moved.current = undefined
  }, [order])
  // A dialog that closes gives the focus back first.
  useEffect(() => {
    if (addedId === undefined) return
    const added = grid.current?.querySelector<HTMLElement>(`[data-panel="${addedId}"]`)
    added?.scrollIntoView({ block: 'nearest' })
    added?.focus({ preventScroll: true })
  }, [addedId])

  function moveByKey(event: KeyboardEvent, { id }: Panel) {
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key]
    if (by === undefined) return
    event.preventDefault()
    moved.current = id
    onMove((now) => {
      const other = now[now.findIndex((it) => it.id === id) + by]
      return other ? toMoved(now, id, other.id) : now
    })
  }
  function sizeByKey(event: KeyboardEvent, { id }: Panel) {
    const [columns, rows] =
      { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? []
    if (columns === undefined || rows === undefined) return
    event.preventDefault()
    onResize(id, ({ width, height }) => toSize(width + columns, height + rows))
  }
  function drag(event: PointerEvent<HTMLElement>, { id }: Panel) {
    if (event.button !== 0) return
    const handle = event.currentTarget
    handle.setPointerCapture(event.pointerId)
    const findUnder = (it: { clientX: number; clientY: number }) =>
      document
        .elementsFromPoint(it.clientX, it.clientY)
        .map((found) => found.closest<HTMLElement>('[data-panel]')?.dataset.panel)
        .find((found) => found !== undefined)
    let to = id
    handle.onpointermove = (it) => {
      const under = findUnder(it)
      if (under === undefined || under === id || under === to) return
      to = under
      setDragged({ id, to })
    }
    const end = (isKept: boolean) => {
      handle.onpointermove = handle.onpointerup = handle.onpointercancel = null
      setDragged(undefined)
      if (isKept && to !== id) onMove((now) => toMoved(now, id, to))
    }
    handle.onpointerup = () => end(true)
    handle.onpointercancel = () => end(false)
  }
  function resize(event: PointerEvent<HTMLElement>, { id }: Panel) {
    if (event.button !== 0) return
    const handle = event.currentTarget
    const panel = handle.closest('[data-panel]')?.getBoundingClientRect()
    const frame = grid.current?.getBoundingClientRect()
    if (!panel || !frame) return
    handle.setPointerCapture(event.pointerId)
    const toNow = (it: { clientX: number; clientY: number }) =>
      toSize(
        Math.round((it.clientX - panel.left) / (frame.width / columnsMax)),
        Math.round((it.clientY - panel.top) / rowPixels),
      )
    handle.onpointermove = (it) => setSized({ id, ...toNow(it) })
    const end = (size: Size | undefined) => {
      handle.onpointermove = handle.onpointerup = handle.onpointercancel = null
      setSized(undefined)
      if (size) onResize(id, () => size)
    }
    handle.onpointerup = (it) => end(toNow(it))
    handle.onpointercancel = () => end(undefined)
  }
  return (
    <div ref={grid} className={styles.grid}>
      {shown.map((it) => {
        const title = toTitle(it)
        const name = title || 'text'
        // A chart and media have their names themselves.
        const heading = it.content.kind === 'chart' || it.content.kind === 'media' ? it.title : title
        const path = toPath(it)
        const { width, height } = sized?.id === it.id ? sized : it
        return (
          <article
            key={it.id}
            data-panel={it.id}
            data-kind={it.content.kind}
            data-moved={dragged?.id === it.id || undefined}
            aria-label={name}
            tabIndex={-1}
            className={styles.panel}
            style={{ gridColumn: `span ${width}`, gridRow: `span ${height}` }}
          >
            {(isEditing || heading !== '') && (
              <header className={styles.panelHeader}>
                {isEditing && (
                  <IconButton
                    label={`Move ${name}: drag it, or use the arrow keys`}
                    size="small"
                    className={styles.handle}
                    data-handle=""
                    onPointerDown={(event) => drag(event, it)}
                    onKeyDown={(event) => moveByKey(event, it)}
                  >
                    <MoveIcon size={14} />
                  </IconButton>
                )}
                {heading === '' ? (
                  <span className={styles.gap} />
                ) : (
                  <h2 title={heading}>{path === undefined ? heading : <PageLink path={path}>{heading}</PageLink>}</h2>
                )}
                {isEditing && (
                  <Menu
                    align="end"
                    trigger={
                      <IconButton label={`Actions for ${name}`} size="small">
                        <DotsIcon size={14} />
                      </IconButton>
                    }
                  >
                    <MenuItem icon={<PencilIcon />} disabled={!(it.content.kind in kinds)} onSelect={() => onEdit(it)}>
                      Edit
                    </MenuItem>
                    <MenuItem icon={<TrashIcon />} danger onSelect={() => onRemove(it)}>
                      Remove
                    </MenuItem>
                  </Menu>
                )}
              </header>
            )}
            <div
              className={styles.content}
              data-kind={it.content.kind}
              {...(withoutLinks.has(it.content.kind) && {
                tabIndex: 0,
                role: 'region',
                'aria-label': `${name}, content`,
              })}
            >
              {children(it)}
            </div>
            {isEditing && (
              <button
                type="button"
                className={styles.size}
                aria-label={`Size of ${name}: ${width} of ${columnsMax} columns, ${height} rows; drag it, or use the arrow keys`}
                onPointerDown={(event) => resize(event, it)}
                onKeyDown={(event) => sizeByKey(event, it)}
              />
            )}
          </article>
        )
      })}
    </div>
  )
}

/** What may be scrolled and has nothing that takes the focus: it is scrolled by keyboard itself. */
const withoutLinks = new Set<Panel['content']['kind']>(['model', 'firings'])

/** A row of the grid and the space after it. */
const rowPixels = 124

const toSize = (width: number, height: number): Size => ({
  width: Math.min(Math.max(width, widthMin), columnsMax),
  height: Math.min(Math.max(height, 1), heightMax),
})

/** The panels with one of them at the place of another; as they are when one of the two is gone. */
function toMoved(panels: Panel[], id: string, toPlaceOf: string): Panel[] {
  const to = panels.findIndex((it) => it.id === toPlaceOf)
  const panel = panels.find((it) => it.id === id)
  if (!panel || to === -1) return panels
  return panels.filter((it) => it.id !== id).toSpliced(to, 0, panel)
}
