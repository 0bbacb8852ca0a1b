import { useEffect, useRef, useState } from 'react'
import { IconButton } from '../kit/button.tsx'
import { DotsIcon } from '../kit/icons.tsx'
import { Menu, MenuItem, MenuLine } from '../kit/menu.tsx'
import { LoadingPlace } from '../kit/places.tsx'
import type { ShownRun } from '../kit/run-colour.ts'
import { toCount, toCountOf, toNumber, toValueText } from '../kit/text.ts'
import { useOwnAxis } from './axes.ts'
import styles from './chart-card.module.css'
import { type ChartState, toAxis } from './chart-state.ts'
import { download, toCsv, toSvg } from './export.ts'
import type { Line } from './line.ts'
import { Plot } from './plot.tsx'
import type { Copies } from './use-copies.ts'
import { type Metric, useLines } from './use-lines.ts'
import { toYRange } from './y-range.ts'

type Props = {
  metric: Metric
  runs: ShownRun[]
  state: ChartState
  onState(change: Partial<ChartState>): void
  height: number
  copies: Copies
  /** The page shows no other chart. */
  isAlone?: boolean
}

const headHeight = 24

export const toTitle = ({ name, context }: Metric) => (context === '' ? name : `${name} (${context})`)

/** One metric of all runs. It reads and draws while it is in sight; of hundreds of others there is only the frame. */
export function ChartCard(props: Props) {
  const [frame, isVisible, heightBefore] = useIsVisible()
  const title = toTitle(props.metric)
  return (
    <section ref={frame} className={styles.card} aria-label={title}>
      {isVisible ? (
        <Chart {...props} title={title} />
      ) : (
        <div style={{ height: heightBefore ?? headHeight + props.height }}>
          <h3 className={styles.title}>{title}</h3>
        </div>
      )}
    </section>
  )
}

function Chart({ title, metric, runs, height, copies, isAlone = false, ...ofAll }: Props & { title: string }) {
  const canvas = useRef<HTMLCanvasElement>(undefined)
  const [state, onState] = useOwnAxis(metric.name, runs, ofAll.state, ofAll.onState)
  const { lines, error, isLoading, refetch } = useLines(metric, runs, state)
  const axis = toAxis(state.x)
  const xName = typeof axis === 'string' ? axis : axis.metricName
  const remarks = toRemarks(lines, state)

  const onSvg = () => {
    const from = state.zoom?.[0] ?? Math.min(...lines.map((it) => it.x[0] ?? 0))
    const to = state.zoom?.[1] ?? Math.max(...lines.map((it) => it.xTo.at(-1) ?? 1))
    const [low, high] = toYRange(lines, { from, to, isLog: false, cutsOutliers: state.cut === true }) ?? [0, 1]
    const svg = toSvg(lines, { title, width: 800, height: 450, from, to, low, high }, toNumber)
    download(`${title}.svg`, new Blob([svg], { type: 'image/svg+xml' }))
  }
  const onPng = () => canvas.current?.toBlob((it) => it && download(`${title}.png`, it))

  return (
    <>
      <header className={styles.head}>
        <h3 className={styles.title} title={title}>
          {title}
        </h3>
        <Menu
          align="end"
          trigger={
            <IconButton label={`More about ${title}`} size="small">
              <DotsIcon size={14} />
            </IconButton>
          }
        >
          {!isAlone && (
            <>
              <MenuItem onSelect={() => onState({ full: state.full === title ? undefined : title })}>
                {state.full === title ? 'Leave full screen' : 'Full screen'}
              </MenuItem>
              <MenuItem
                onSelect={() => onState({ first: [title, ...(state.first ?? []).filter((it) => it !== title)] })}
              >
                Move to the top
              </MenuItem>
            </>
          )}
          {state.zoom && <MenuItem onSelect={() => onState({ zoom: undefined })}>Show all of x</MenuItem>}
          <MenuItem onSelect={() => copies.link(metric, state)}>Copy link</MenuItem>
          <MenuItem onSelect={() => copies.frame(metric, state)}>Copy frame</MenuItem>
          <MenuLine />
          <MenuItem
            onSelect={() =>
              download(`${title}.csv`, new Blob([toCsv(title, xName, lines)], { type: 'text/csv;charset=utf-8' }))
            }
          >
            Export as CSV
          </MenuItem>
          <MenuItem onSelect={onSvg}>Export as SVG</MenuItem>
          <MenuItem onSelect={onPng}>Export as PNG</MenuItem>
        </Menu>
      </header>
      <div className={styles.body} style={{ height }}>
        {error && lines.length === 0 ? (
          <p role="alert" className={styles.note}>
            {error.message}{' '}
            <button type="button" className={styles.link} onClick={() => refetch()}>
              Try again
            </button>
          </p>
        ) : isLoading ? (
          <LoadingPlace rows={4} />
        ) : lines.length === 0 ? (
          <p className={styles.note}>
            {typeof axis === 'string' && axis !== 'epoch'
              ? 'The runs that are shown have no such points here.'
              : `No point has a value of ${xName} here.`}
          </p>
        ) : (
          <Plot
            lines={lines}
            x={typeof axis === 'string' ? axis : 'metric'}
            toY={toValueText(metric.name)}
            logX={state.logX === true}
            logY={state.logY === true}
            cutsOutliers={state.cut === true}
            isSmoothed={(state.smooth ?? 0) > 0}
            zoom={state.zoom}
            onZoom={(zoom) => onState({ zoom })}
            label={`${title}, ${toCountOf(lines.length, lines[0]?.runs ? 'group' : 'run')}`}
            height={height}
            onCanvas={(it) => {
              canvas.current = it
            }}
          />
        )}
      </div>
      {remarks && <p className={styles.remarks}>{remarks}</p>}
    </>
  )
}

/** What the drawing cannot show, so that nobody misses it in silence. */
function toRemarks(lines: Line[], state: ChartState): string {
  const remarks: string[] = []
  const bad = lines.reduce((sum, it) => sum + it.nonFinite.reduce((all, one) => all + one, 0), 0)
  if (bad > 0) remarks.push(`${toCountOf(bad, 'value')} not finite (×)`)
  if (state.logY) {
    const below = lines.reduce((sum, it) => sum + it.min.filter((value) => value != null && value <= 0).length, 0)
    if (below > 0) remarks.push(`${toCount(below)} not above 0`)
  }
  if (state.cut) remarks.push('outliers beyond the edge')
  return remarks.join(' · ')
}

/** True while the element is near to what is in sight; and how high its content was when it went out of it. */
function useIsVisible() {
  const ref = useRef<HTMLElement>(null)
  const [isVisible, setVisible] = useState(false)
  const [heightBefore, setHeightBefore] = useState<number>()
  useEffect(() => {
    const watch = new IntersectionObserver(
      (entries) => {
        const isNear = entries.at(-1)?.isIntersecting === true
        if (!isNear && ref.current?.querySelector('canvas')) setHeightBefore(contentHeightOf(ref.current))
        setVisible(isNear)
      },
      { rootMargin: '200px' },
    )
    if (ref.current) watch.observe(ref.current)
    return () => watch.disconnect()
  }, [])
  return [ref, isVisible, heightBefore] as const
}

function contentHeightOf(card: HTMLElement): number {
  const { paddingTop, paddingBottom } = getComputedStyle(card)
  return card.clientHeight - Number.parseFloat(paddingTop) - Number.parseFloat(paddingBottom)
}
