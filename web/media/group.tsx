import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { type MediaName, type Medium, mediaKey, readMedia } from '../api/artifacts/media.ts'
import { Button } from '../kit/button.tsx'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toRunColour } from '../kit/run-colour.ts'
import { toBytes, toCount, toCountOf, toTime } from '../kit/text.ts'
import { useIsDark } from '../kit/theme.ts'
import styles from './media.module.css'
import { Shown } from './shown.tsx'

type Props = {
  workspace: string
  project: string
  runs: { experimentKey: string; name: string }[]
  of: MediaName
  step: number | undefined
  isLive: boolean
  /** Every step is shown, not only the chosen one. */
  isAll: boolean
  onAll(): void
}

const pageSize = 24
const liveMs = 5_000
/** After all steps that media have. */
const newest = Number.MAX_SAFE_INTEGER

/** The media of one name: those of a step, of each run, or all of them. They are read when they come into view. */
export function Group({ workspace, project, runs, of, step, isLive, isAll, onAll }: Props) {
  const [frame, isSeen] = useSeen()
  const keys = runs.map((it) => it.experimentKey)
  const at = isAll ? undefined : (step ?? newest)
  const pages = useInfiniteQuery({
    queryKey: mediaKey(keys, 'of', of.kind, of.name, at),
    queryFn: ({ pageParam: page, signal }) =>
      readMedia(
        {
          experimentKeys: keys,
          kind: of.kind,
          name: of.name,
          pageSize,
          ...(at !== undefined && { at }),
          ...(page && { page }),
        },
        signal,
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextPage ?? undefined,
    placeholderData: keepPreviousData,
    enabled: isSeen,
    refetchInterval: isLive ? liveMs : false,
  })
  const media = pages.data?.pages.flatMap((it) => it.media) ?? []
  const total = pages.data?.pages[0]?.total
  const names = new Map(runs.map((it) => [it.experimentKey, it.name]))
  const steps = of.steps > 0 ? ` at ${toCountOf(of.steps, 'step')}` : ''
  const ofRuns = runs.length > 1 ? ` of ${toCount(of.experiments)} of ${toCountOf(runs.length, 'run')}` : ''
  return (
    <section ref={frame} className={styles.group} data-wide={wideKinds.has(of.kind) || undefined} aria-label={of.name}>
      <header className={styles.groupHeader}>
        <h2 title={of.name}>{of.name}</h2>
        <span className={styles.faint}>{`${toCount(of.count)}${steps}${ofRuns}`}</span>
        {!isAll && of.count > (total ?? 0) && (
          <Button size="small" look="quiet" onClick={onAll}>{`Show all ${toCount(of.count)}`}</Button>
        )}
      </header>
      {pages.error && !pages.data ? (
        <ErrorPlace error={pages.error} onRetry={() => pages.refetch()} />
      ) : total === undefined ? (
        <LoadingPlace rows={3} />
      ) : total === 0 ? (
        <p className={styles.faint}>Nothing was logged until this step.</p>
      ) : (
        <ul className={styles.items} data-wide={wideKinds.has(of.kind) || undefined}>
          {media.map((it) => (
            <Item
              key={`${it.experimentKey} ${it.assetId}`}
              medium={it}
              {...{ workspace, project }}
              runName={runs.length > 1 ? (names.get(it.experimentKey) ?? it.experimentKey) : undefined}
            />
          ))}
        </ul>
      )}
      {pages.hasNextPage && (
        <p className={styles.more}>
          <Button size="small" onClick={() => pages.fetchNextPage()} disabled={pages.isFetchingNextPage}>
            Show more
          </Button>
          <span className={styles.faint}>{`${toCount(media.length)} of ${toCount(total ?? 0)}`}</span>
        </p>
      )}
    </section>
  )
}

const wideKinds = new Set<string>(['table', 'html', 'confusion-matrix', 'embedding', 'points', 'text'])

type ItemProps = { medium: Medium; workspace: string; project: string; runName: string | undefined }

function Item({ medium, workspace, project, runName }: ItemProps) {
  const isDark = useIsDark()
  const { experimentKey, assetId, step, runContext, fileName, fileSize, createdAt } = medium
  const caption = toCaption(medium.metadata)
  const run = toPagePath(workspace, project, experimentKey)
  return (
    <li className={styles.item}>
      {runName !== undefined && (
        <p className={styles.run}>
          <span className={styles.dot} style={{ background: toRunColour(experimentKey, isDark) }} />
          <PageLink path={run}>{runName}</PageLink>
        </p>
      )}
      <div className={styles.shown}>
        <Shown medium={medium} />
      </div>
      <p className={styles.caption}>
        {caption && <span className={styles.words}>{caption}</span>}
        <span className={styles.faint}>{step === null ? 'no step' : `step ${toCount(step)}`}</span>
        {runContext && <span className={styles.faint}>{runContext}</span>}
        <PageLink
          path={`${run}?${new URLSearchParams({ tab: 'files', file: JSON.stringify(assetId) })}`}
          title={`${fileName}, ${toBytes(fileSize)}, ${toTime(createdAt)}`}
          aria-label={`File ${fileName}${step === null ? '' : ` of step ${step}`}`}
        >
          File
        </PageLink>
      </p>
    </li>
  )
}

/** Some clients log what it shows as `caption`. */
function toCaption(metadata: string | null): string | undefined {
  if (metadata === null) return undefined
  try {
    const { caption } = (JSON.parse(metadata) ?? {}) as { caption?: unknown }
    return typeof caption === 'string' ? caption : undefined
  } catch {
    return undefined
  }
}

const nearPixels = '400px'

/** True once an element has been near what is on the screen. */
function useSeen() {
  const frame = useRef<HTMLElement>(null)
  const [isSeen, setSeen] = useState(false)
  useEffect(() => {
    const element = frame.current
    if (!element || isSeen) return
    const watch = new IntersectionObserver(
      (entries) => {
        if (entries.some((it) => it.isIntersecting)) setSeen(true)
      },
      { rootMargin: nearPixels },
    )
    watch.observe(element)
    return () => watch.disconnect()
  }, [isSeen])
  return [frame, isSeen] as const
}
