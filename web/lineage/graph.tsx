import { memo, type PointerEvent, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import type { LineageEdge, LineageNode } from '../api/artifacts/lineage.ts'
import { Button, IconButton, join } from '../kit/button.tsx'
import { PlusIcon } from '../kit/icons.tsx'
import { PageLink } from '../kit/page-link.tsx'
import { toCount } from '../kit/text.ts'
import { type Placed, toLayout } from './layout.ts'
import styles from './lineage.module.css'
import { toNodePath } from './paths.ts'

const box = { width: 188, height: 44 }
const gap = { x: 64, y: 12 }
const margin = 16
const zooms = { least: 0.1, most: 2, step: 1.25 }
/** What is no further from the start than a large screen is drawn at once; all else right after that. */
const near = { x: 2_000, y: 1_200 }

type Props = { nodes: LineageNode[]; edges: LineageEdge[]; start: string }

/** Columns from the left to the right in the order of time. It is scrolled, dragged and zoomed; many of a kind are one box. */
export function Graph({ nodes, edges, start }: Props) {
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())
  const [zoom, setZoom] = useState(1)
  const frame = useRef<HTMLDivElement>(null)
  const layout = useMemo(() => toLayout(nodes, edges, start, opened), [nodes, edges, start, opened])
  const width = layout.columns * (box.width + gap.x) - gap.x + 2 * margin
  const height = layout.rows * (box.height + gap.y) - gap.y + 2 * margin
  const toWhole = () => {
    const { clientWidth = width, clientHeight = height } = frame.current ?? {}
    return Math.max(zooms.least, Math.min(1, clientWidth / width, clientHeight / height))
  }
  const at = useMemo(
    () => layout.places.find((it) => it.members.some((member) => member.node === start)),
    [layout, start],
  )
  const [isWhole, setWhole] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setWhole(true))
    return () => clearTimeout(timer)
  }, [])
  const lines = useMemo(() => layout.edges.map(({ from, to }) => toLine(from, to)).join(''), [layout])
  const begun = useRef(false)
  useLayoutEffect(() => {
    if (begun.current) return
    begun.current = true
    // Boxes are to be read at first; what does not fit is scrolled to.
    showStart()
  })
  function showStart() {
    if (!at || !frame.current) return
    const { clientWidth, clientHeight } = frame.current
    frame.current.scrollTo({
      left: toLeft(at) * zoom - clientWidth / 2 + (box.width * zoom) / 2,
      top: toTop(at) * zoom - clientHeight / 2 + (box.height * zoom) / 2,
    })
  }
  const isNear = (it: Placed) =>
    !at || (Math.abs(toLeft(it) - toLeft(at)) <= near.x && Math.abs(toTop(it) - toTop(at)) <= near.y)
  const open = useCallback((id: string) => setOpened((it) => new Set([...it, id])), [])
  const groups = layout.places.filter((it) => it.members.length > 1)
  return (
    <div className={styles.graph}>
      <div className={styles.zoom}>
        <IconButton label="Zoom in" onClick={() => setZoom((it) => Math.min(zooms.most, it * zooms.step))}>
          <PlusIcon />
        </IconButton>
        <IconButton label="Zoom out" onClick={() => setZoom((it) => Math.max(zooms.least, it / zooms.step))}>
          <span aria-hidden="true">−</span>
        </IconButton>
        <Button size="small" onClick={() => setZoom(toWhole())}>
          Fit
        </Button>
        <Button size="small" onClick={showStart}>
          Find the start
        </Button>
        {opened.size > 0 && (
          <Button size="small" onClick={() => setOpened(new Set())}>
            Close groups
          </Button>
        )}
        {groups.length > 0 && (
          <span className={styles.faint}>
            A stack holds those that came from the same and led to the same; press it to open it.
          </span>
        )}
      </div>
      <div
        ref={frame}
        className={styles.frame}
        role="region"
        aria-label="Lineage"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it is scrolled by keyboard
        tabIndex={0}
        onPointerDown={drag}
      >
        <div className={styles.whole} style={{ width: width * zoom, height: height * zoom }}>
          <div
            className={styles.places}
            style={{ width, height, transform: `scale(${zoom})` }}
            role="group"
            aria-label={`${toCount(nodes.length)} nodes, ${toCount(edges.length)} lines`}
          >
            <svg className={styles.lines} width={width} height={height} aria-hidden="true">
              <path d={lines} />
            </svg>
            {(isWhole ? layout.places : layout.places.filter(isNear)).map((it) => (
              <Place key={it.id} place={it} start={start} onOpen={open} />
            ))}
          </div>
        </div>
      </div>
    </div>
  )
}

const toLeft = ({ column }: Placed) => margin + column * (box.width + gap.x)
const toTop = ({ row }: Placed) => margin + row * (box.height + gap.y)

function toLine(from: Placed, to: Placed): string {
  const [x1, y1] = [toLeft(from) + box.width, toTop(from) + box.height / 2]
  const [x2, y2] = [toLeft(to), toTop(to) + box.height / 2]
  const bend = Math.max(24, Math.abs(x2 - x1) / 2)
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`
}

/** Moves what is scrolled with the pointer; links and buttons stay what they are. */
function drag(event: PointerEvent<HTMLDivElement>) {
  if (event.button !== 0 || (event.target as Element).closest('a, button')) return
  const frame = event.currentTarget
  const from = { x: event.clientX + frame.scrollLeft, y: event.clientY + frame.scrollTop }
  frame.setPointerCapture(event.pointerId)
  frame.onpointermove = (it) => frame.scrollTo(from.x - it.clientX, from.y - it.clientY)
  frame.onpointerup = () => {
    frame.onpointermove = null
    frame.onpointerup = null
  }
}

type PlaceProps = { place: Placed; start: string; onOpen(id: string): void }

/** Zooming draws none of them anew. */
const Place = memo(function Place({ place, start, onOpen }: PlaceProps) {
  const [first] = place.members as [LineageNode, ...LineageNode[]]
  const position = { left: toLeft(place), top: toTop(place), width: box.width, height: box.height }
  return (
    <div className={styles.place} style={position}>
      {place.members.length > 1 ? (
        <Stack place={place} onOpen={() => onOpen(place.id)} />
      ) : (
        <Node node={first} isStart={first.node === start} />
      )}
    </div>
  )
})

function Node({ node, isStart }: { node: LineageNode; isStart: boolean }) {
  const second = toSecond(node)
  return (
    <PageLink
      path={toNodePath(node)}
      className={styles.node}
      data-kind={node.kind}
      title={`${node.name}, ${second}`}
      aria-current={isStart ? 'true' : undefined}
    >
      <span className={styles.name}>{node.name}</span>
      <span className={styles.second}>{second}</span>
    </PageLink>
  )
}

function toSecond({ kind, projectName, version, artifactType, state, stages }: LineageNode): string {
  if (kind === 'run') return `run in ${projectName}`
  if (kind === 'model') return ['model', version, stages.length > 0 && stages.join(', ')].filter(Boolean).join(' · ')
  return [artifactType, version, state !== 'CLOSED' && state?.toLowerCase()].filter(Boolean).join(' · ')
}

function Stack({ place, onOpen }: { place: Placed; onOpen(): void }) {
  const { members } = place
  const [first] = members as [LineageNode, ...LineageNode[]]
  const names = [...new Set(members.map((it) => it.name))]
  const noun = first.kind === 'run' ? 'runs' : first.kind === 'model' ? 'model versions' : 'artifact versions'
  return (
    <button
      type="button"
      className={join(styles.node, styles.stack)}
      data-kind={first.kind}
      title={`Open: ${names.slice(0, 10).join(', ')}${names.length > 10 ? ', …' : ''}`}
      onClick={onOpen}
    >
      <span className={styles.name}>{`${toCount(members.length)} ${noun}`}</span>
      <span className={styles.second}>{names.length === 1 ? names[0] : `${names[0]}, …`}</span>
    </button>
  )
}
