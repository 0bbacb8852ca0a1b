import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { type MediaKind, mediaKey, mediaKinds, mediaSteps, readMediaNames } from '../api/artifacts/media.ts'
import { Button } from '../kit/button.tsx'
import { Select } from '../kit/field.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { SearchField } from '../kit/search-field.tsx'
import { toCount, toCountOf } from '../kit/text.ts'
import { Group } from './group.tsx'
import styles from './media.module.css'
import type { MediaState } from './media-search.ts'
import { StepSlider } from './step-slider.tsx'

export type MediaProps = {
  workspace: string
  project: string
  runs: { experimentKey: string; name: string }[]
  state: MediaState
  onState(change: Partial<MediaState>): void
  /** More may come at any time. */
  isLive?: boolean
  /** What follows all groups. */
  children?: ReactNode
}

const kindNames: Record<MediaKind, string> = {
  image: 'Images',
  audio: 'Audio',
  video: 'Video',
  text: 'Texts',
  html: 'HTML',
  table: 'Tables',
  curve: 'Curves',
  histogram: 'Histograms',
  'confusion-matrix': 'Confusion matrices',
  points: 'Points',
  embedding: 'Embeddings',
}

const pageSize = 30
const liveMs = 5_000

/** What runs have logged to be looked at, by kind and name, at a step; each of several runs beside the others. */
export function MediaView({ workspace, project, runs, state, onState, isLive = false, children }: MediaProps) {
  const { find = '', kind, step, all } = state
  const keys = runs.map((it) => it.experimentKey)
  const refetchInterval = isLive ? liveMs : (false as const)
  const steps = useQuery({ ...mediaSteps(keys), refetchInterval })
  const names = useInfiniteQuery({
    queryKey: mediaKey(keys, 'names', find, kind),
    queryFn: ({ pageParam: page, signal }) =>
      readMediaNames(
        { experimentKeys: keys, pageSize, ...(find && { search: find }), ...(kind && { kind }), ...(page && { page }) },
        signal,
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextPage ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval,
  })
  const { data, error } = names
  if (error && !data) return <ErrorPlace error={error} onRetry={() => names.refetch()} />
  if (!data) return <LoadingPlace />
  const total = data.pages[0]?.total ?? 0
  const listed = data.pages.flatMap((it) => it.names)
  const shown = all === undefined ? listed : listed.filter((it) => `${it.kind}/${it.name}` === all)
  if (total === 0 && find === '' && kind === undefined) {
    return children ? (
      <div className={styles.view}>{children}</div>
    ) : (
      <EmptyPlace title="No media">
        <p>
          Images, audio, video, texts, HTML, tables, curves, histograms, confusion matrices, points and embeddings that
          a run logs appear here, at each of their steps.
        </p>
        <p>
          <code>experiment.log_image(image, "sample.png", step=100)</code>
        </p>
      </EmptyPlace>
    )
  }
  return (
    <div className={styles.view}>
      <div className={styles.bar}>
        <SearchField
          label="Search media"
          placeholder="Name"
          text={find}
          onChange={(text) => onState({ find: text || undefined })}
        />
        <Select
          aria-label="Kind"
          value={kind ?? ''}
          onChange={(event) => onState({ kind: mediaKinds.find((it) => it === event.target.value) })}
        >
          <option value="">All kinds</option>
          {mediaKinds.map((it) => (
            <option key={it} value={it}>
              {kindNames[it]}
            </option>
          ))}
        </Select>
        {all !== undefined ? (
          <Button size="small" onClick={() => onState({ all: undefined })}>
            Back to all names
          </Button>
        ) : (
          steps.data && <StepSlider {...steps.data} step={step} onStep={(it) => onState({ step: it })} />
        )}
        <span className={styles.faint} role="status">
          {toCountOf(total, 'name')}
        </span>
      </div>
      {total === 0 && <EmptyPlace title="No media match">No name and kind is as you have chosen.</EmptyPlace>}
      <div className={styles.groups} data-beside={(runs.length === 1 && all === undefined) || undefined}>
        {shown.map((it) => (
          <Group
            key={`${it.kind}/${it.name}`}
            {...{ workspace, project, runs, step, isLive }}
            of={it}
            isAll={all !== undefined}
            onAll={() => onState({ all: `${it.kind}/${it.name}` })}
          />
        ))}
      </div>
      {all !== undefined && shown.length === 0 && !names.hasNextPage && (
        <EmptyPlace title="Not there">No run that is shown has this.</EmptyPlace>
      )}
      {names.hasNextPage && (all === undefined || shown.length === 0) && (
        <p className={styles.more}>
          <Button onClick={() => names.fetchNextPage()} disabled={names.isFetchingNextPage}>
            Show more names
          </Button>
          <span className={styles.faint}>{`${toCount(listed.length)} of ${toCount(total)}`}</span>
        </p>
      )}
      {all === undefined && find === '' && (kind === undefined || kind === 'html') && children}
    </div>
  )
}
