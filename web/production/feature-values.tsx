import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { type DriftMap, distribution, type Scope } from '../api/monitoring.ts'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toCount } from '../kit/text.ts'
import type { Cell } from './heat-map.tsx'
import { Histogram, toBins, toSide } from './histogram.tsx'
import styles from './production.module.css'
import { toShare, toShort, toWindow } from './words.ts'

const bins = 24

export type OfFeature = { scope: Scope; map: DriftMap; cell: Cell }

/** The row of a feature in the map, and which of its windows is looked at. */
export function findCell({ map, cell }: Omit<OfFeature, 'scope'>) {
  const at = Math.max(
    0,
    map.windows.findIndex((it) => it.from === cell.at),
  )
  const row = map.features.find((it) => it.name === cell.feature && it.part === cell.part)
  return { row, at, window: map.windows[at] }
}

/** The values of a feature in the reference, if it has any. */
export function useReferenceValues({ scope, map, cell }: OfFeature) {
  const { row } = findCell({ map, cell })
  const isInReference = row?.status.some((it) => it !== null && it !== 'not in the reference') ?? false
  const asked = {
    workspaceName: scope.workspaceName,
    modelName: map.reference.datasetName,
    kind: 'TRAINING_EVENTS',
    feature: cell.feature,
    part: cell.part,
  }
  const { data } = useQuery({ ...distribution({ ...asked, bins }), enabled: isInReference })
  return { asked, isInReference, data }
}

type Props = OfFeature & {
  /** Only the histogram, in all of the height of its place. */
  isFilling?: boolean
}

/** The values of a feature in a window against those of the reference. */
export function FeatureValues({ isFilling = false, ...of }: Props) {
  const { scope, map, cell } = of
  const { feature, part } = cell
  const { window } = findCell(of)
  const asked = { ...scope, feature, part, from: window?.from, to: window?.to }
  const reference = useReferenceValues(of)
  const seen = useQuery({ ...distribution({ ...asked, bins }), placeholderData: keepPreviousData })
  const edges = toSharedEdges(reference.data?.edges, seen.data?.edges)
  const isNumeric = seen.data?.type === 'numeric' && edges !== undefined
  // The same bins for both sides: what is beyond those of the reference is to be seen.
  const binned = useQuery({
    ...distribution({ ...asked, edges }),
    enabled: isNumeric,
    placeholderData: keepPreviousData,
  })
  const binnedReference = useQuery({
    ...distribution({ ...reference.asked, edges }),
    enabled: isNumeric && reference.isInReference,
    placeholderData: keepPreviousData,
  })
  const current = isNumeric ? binned.data : seen.data
  const before = isNumeric ? binnedReference.data : reference.data
  if (seen.error && !seen.data) return <ErrorPlace error={seen.error} onRetry={() => seen.refetch()} />
  if (!current) return <LoadingPlace rows={4} />
  const when = window ? toWindow(window.from, map.interval) : ''
  return <Values current={current} reference={before} feature={feature} when={when} isFilling={isFilling} />
}

type Answer = NonNullable<Parameters<typeof toSide>[0]>

function Values({
  current,
  reference,
  feature,
  when,
  isFilling,
}: {
  current: Answer
  reference: Answer | undefined
  feature: string
  when: string
  isFilling: boolean
}) {
  const bins = toBins(reference, current)
  const sides = { reference: toSide(reference, bins), current: toSide(current, bins) }
  const [before, now] = [sides.reference.window, sides.current.window]
  const isNew = bins.filter((it, at) => it.isNew && (sides.current.counts[at] ?? 0) > 0).map((it) => it.name)
  const facts: [string, string | null, string | null][] =
    current.type === 'numeric'
      ? [
          ['mean', toShort(before?.mean ?? null), toShort(now?.mean ?? null)],
          ['deviation', toShort(before?.std ?? null), toShort(now?.std ?? null)],
          ...['0.05', '0.25', '0.5', '0.75', '0.95'].map((q): [string, string, string] => [
            q === '0.5' ? 'median' : `${Number(q) * 100} %`,
            toShort(before?.quantiles[q] ?? null),
            toShort(now?.quantiles[q] ?? null),
          ]),
          ['least', toShort(before?.min ?? null), toShort(now?.min ?? null)],
          ['greatest', toShort(before?.max ?? null), toShort(now?.max ?? null)],
        ]
      : [['categories', toCount(before?.distinct ?? 0), toCount(now?.distinct ?? 0)]]
  facts.push(['missing', toShare(before?.missingShare ?? null), toShare(now?.missingShare ?? null)])
  facts.push(['values', toCount(before?.values ?? 0), toCount(now?.values ?? 0)])
  const histogram = <Histogram feature={feature} bins={bins} {...sides} when={when} isFilling={isFilling} />
  const news = isNew.length > 0 && (
    <p className={styles.warning}>{`New: ${isNew.slice(0, 10).join(', ')}${isNew.length > 10 ? ', …' : ''}`}</p>
  )
  if (isFilling) {
    return (
      <div className={styles.fill}>
        {histogram}
        {news}
      </div>
    )
  }
  return (
    <div className={styles.column}>
      {histogram}
      {news}
      <table className={styles.figures}>
        <thead>
          <tr>
            <td />
            <th scope="col">Reference</th>
            <th scope="col">{when}</th>
          </tr>
        </thead>
        <tbody>
          {facts.map(([name, before, now]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{before}</td>
              <td>{now}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Bins of equal width over both. */
function toSharedEdges(a: number[] | undefined, b: number[] | undefined): string | undefined {
  const all = [...(a ?? []), ...(b ?? [])]
  if (!b || all.length < 2) return undefined
  const [low, high] = [Math.min(...all), Math.max(...all)]
  if (!(high > low)) return undefined
  const edges = Array.from({ length: bins + 1 }, (_, at) => low + ((high - low) * at) / bins)
  edges[bins] = high
  return edges.join()
}
