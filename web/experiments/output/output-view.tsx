import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useRef } from 'react'
import { type LineFilter, readLines } from '../../api/output.ts'
import { Button, join } from '../../kit/button.tsx'
import { Checkbox } from '../../kit/field.tsx'
import { SearchField } from '../../kit/search-field.tsx'
import { CopyButton } from '../../kit/snippet.tsx'
import { toCount, toCountOf, toTime } from '../../kit/text.ts'
import styles from './output-view.module.css'
import { palette, Styled } from './styled.tsx'
import { toRow, toText } from './terminal.ts'
import { type ShownLine, useLines } from './use-lines.ts'

type Props = {
  experimentKey: string
  isLive: boolean
  /** Lines of the whole output, and those that pass the filter. */
  total: number
  found: number
  filter: LineFilter
  onFilter(filter: LineFilter): void
  /** The line that the address names, counted from one. */
  line: number | undefined
  onLine(line: number | undefined): void
  isFollowing: boolean
  onFollow(isFollowing: boolean): void
}

const lineHeight = 20
const copiedMax = 10_000

/** What a run printed, as a terminal shows it. Only the lines on the screen are read and drawn. */
export function OutputView(props: Props) {
  const { experimentKey, isLive, total, found, filter, onFilter, line, onLine, isFollowing, onFollow } = props
  const { search = '', stderr } = filter
  const frame = useRef<HTMLDivElement>(null)
  const rows = useVirtualizer({
    count: found,
    getScrollElement: () => frame.current,
    estimateSize: () => lineHeight,
    overscan: 30,
  })
  const drawn = rows.getVirtualItems()
  const shown = { experimentKey, filter, isLive }
  const { lines } = useLines(shown, found, drawn[0]?.index ?? 0, drawn.at(-1)?.index ?? 0)

  const isWhole = search === '' && !stderr
  const named = line !== undefined && isWhole && line <= found ? line - 1 : -1
  useEffect(() => {
    if (named >= 0) rows.scrollToIndex(named, { align: 'center' })
  }, [named, rows])
  useEffect(() => {
    if (isFollowing && named < 0) rows.scrollToIndex(found - 1, { align: 'end' })
  }, [isFollowing, named, found, rows])

  async function copyLines(): Promise<string> {
    const lines = await readLines(experimentKey, filter, { limit: copiedMax })
    return lines.map((it) => toText(it.output)).join('\n')
  }

  const digits = String(total).length
  return (
    <section className={join(styles.view, palette)} aria-label="Output">
      <div className={styles.bar}>
        <SearchField
          label="Search the output"
          className={styles.search}
          text={search}
          onChange={(text) => onFilter({ ...(text && { search: text }), ...(stderr && { stderr }) })}
        />
        <Checkbox
          checked={stderr ?? false}
          onChange={(event) => onFilter({ ...(search && { search }), ...(event.target.checked && { stderr: true }) })}
        >
          stderr only
        </Checkbox>
        <span className={styles.count} role="status">
          {isWhole ? toCountOf(total, 'line') : `${toCount(found)} of ${toCountOf(total, 'line')}`}
        </span>
        {line !== undefined && (
          <Button size="small" look="quiet" onClick={() => onLine(undefined)}>
            Line {toCount(line)} ✕
          </Button>
        )}
        <span className={styles.gap} />
        {isLive && (
          <Checkbox checked={isFollowing} onChange={(event) => onFollow(event.target.checked)}>
            Follow
          </Checkbox>
        )}
        <Button size="small" look="quiet" onClick={() => rows.scrollToIndex(0)}>
          Top
        </Button>
        <Button size="small" look="quiet" onClick={() => rows.scrollToIndex(found - 1, { align: 'end' })}>
          End
        </Button>
        <CopyButton
          label={found > copiedMax ? `Copy the first ${toCount(copiedMax)} lines` : 'Copy the lines'}
          text={copyLines}
        />
      </div>
      <div
        ref={frame}
        className={styles.lines}
        role="log"
        aria-label="Lines"
        aria-live="off"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it is scrolled by keyboard
        tabIndex={0}
        onWheel={(event) => event.deltaY < 0 && isFollowing && onFollow(false)}
      >
        {found === 0 ? (
          <p className={styles.none}>
            {search === '' ? 'Nothing was written to stderr.' : `No line${stderr ? ' of stderr' : ''} has “${search}”.`}
          </p>
        ) : (
          <div className={styles.all} style={{ height: rows.getTotalSize() }}>
            {drawn.map(({ index, start }) => (
              <div
                key={index}
                className={join(
                  styles.line,
                  lines.get(index)?.stderr && styles.stderr,
                  (lines.get(index)?.number ?? -2) + 1 === line && styles.named,
                )}
                style={{ transform: `translateY(${start}px)` }}
              >
                <Line line={lines.get(index)} width={`${digits + 2}ch`} mark={search} named={line} onLine={onLine} />
              </div>
            ))}
          </div>
        )}
      </div>
    </section>
  )
}

type LineProps = {
  /** Undefined while it is read. */
  line: ShownLine | undefined
  width: string
  mark: string
  named: number | undefined
  onLine(line: number | undefined): void
}

function Line({ line, width, mark, named, onLine }: LineProps) {
  if (!line) return <span className={styles.number} style={{ width }} />
  const number = line.number + 1
  return (
    <>
      <a
        href={`#L${number}`}
        aria-label={`Line ${number}`}
        title={`${toTime(line.timestamp)}${line.stderr ? ', stderr' : ''}`}
        className={styles.number}
        style={{ width }}
        onClick={(event) => {
          event.preventDefault()
          onLine(number === named ? undefined : number)
        }}
      >
        {number}
      </a>
      <code className={styles.text}>
        <Styled spans={toRow(line.output, line.start).spans} mark={mark} />
      </code>
    </>
  )
}
