import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { type DriftMap, distribution, type Scope } from '../api/monitoring.ts'
import { Button } from '../kit/button.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toCount } from '../kit/text.ts'
import { levelWords, toLevel } from './drift-level.ts'
import type { Cell } from './heat-map.tsx'
import { Histogram, toBins, toSide } from './histogram.tsx'
import styles from './production.module.css'
import { TimeChart } from './time-chart.tsx'
import { toMeasure, toShare, toShort, toWindow } from './words.ts'

const bins = 24
const quantiles = ['0.05', '0.5', '0.95']

type Props = {
  scope: Scope
  map: DriftMap
  cell: Cell
  /** Leads to a rule on this feature. */
  onAddRule(): void
}

/** One feature against the reference: its values in a window, and what became of it over time. */
export function FeaturePanel({ scope, map, cell, onAddRule }: Props) {
  const { windows, interval } = map
  const { feature: name, part } = cell
  const at = Math.max(
    0,
    windows.findIndex((it) => it.from === cell.at),
  )
  const window = windows[at]
  const of = { ...scope, feature: name, part }
  const time = { from: window?.from, to: window?.to }
  const row = map.features.find((it) => it.name === name && it.part === part)
  const isInReference = row?.status.some((it) => it !== null && it !== 'not in the reference') ?? false
  const ofReference = {
    workspaceName: scope.workspaceName,
    modelName: map.reference.datasetName,
    kind: 'TRAINING_EVENTS',
  }
  const reference = useQuery({
    ...distribution({ ...ofReference, feature: name, part, bins }),
    enabled: isInReference,
  })
  const seen = useQuery({ ...distribution({ ...of, ...time, bins }), placeholderData: keepPreviousData })
  const edges = toSharedEdges(reference.data?.edges, seen.data?.edges)
  const isNumeric = seen.data?.type === 'numeric' && edges !== undefined
  // The same bins for both sides: what is beyond those of the reference is to be seen.
  const binned = useQuery({
    ...distribution({ ...of, ...time, edges }),
    enabled: isNumeric,
    placeholderData: keepPreviousData,
  })
  const binnedReference = useQuery({
    ...distribution({ ...ofReference, feature: name, part, edges }),
    enabled: isNumeric && isInReference,
    placeholderData: keepPreviousData,
  })
  const overTime = useQuery({
    ...distribution({ ...of, from: windows[0]?.from, to: windows.at(-1)?.to, interval, bins: 1 }),
    placeholderData: keepPreviousData,
  })
  const measure = row?.judgedBy.findLast((it) => it !== null)
  const current = isNumeric ? binned.data : seen.data
  const before = isNumeric ? binnedReference.data : reference.data
  const when = window ? toWindow(window.from, interval) : ''
  const all = overTime.data?.windows ?? []
  const value = (q: string) => windows.map((it) => all.find(({ from }) => from === it.from)?.quantiles[q] ?? null)
  const median = reference.data?.windows[0]?.quantiles['0.5']
  return (
    <section className={styles.panel} aria-labelledby="feature">
      <div className={styles.sectionHeader}>
        <h2 id="feature" title={name}>
          {name}
        </h2>
        <span className={styles.soft}>{`${when}: ${row ? levelWords[String(toLevel(row, at))] : 'not reported'}`}</span>
        <span className={styles.gap} />
        <Button size="small" onClick={onAddRule}>
          Add an alert
        </Button>
      </div>
      <div className={styles.pair}>
        {seen.error && !seen.data ? (
          <ErrorPlace error={seen.error} onRetry={() => seen.refetch()} />
        ) : !current ? (
          <LoadingPlace rows={4} />
        ) : (
          <Values current={current} reference={before} feature={name} when={when} />
        )}
        <div className={styles.column}>
          <TimeChart
            title={measure ? `Distance from the reference (${toMeasure(measure)})` : 'Distance from the reference'}
            windows={windows}
            intervalMs={interval}
            series={[{ name: 'distance', values: row?.value ?? [], look: 'first' }]}
            marked={row?.drifted.map((it) => it === true)}
            range={[0, 0.1]}
          />
          {overTime.data?.type === 'numeric' && (
            <TimeChart
              title="Quantiles"
              windows={windows}
              intervalMs={interval}
              series={quantiles.map((q, nth) => ({
                name: q === '0.5' ? 'median' : `${Number(q) * 100} %`,
                values: value(q),
                look: (['faint', 'first', 'third'] as const)[nth] ?? 'faint',
              }))}
              lines={median === undefined ? [] : [{ name: 'median of the reference', value: median }]}
            />
          )}
          <TimeChart
            title="Missing values"
            windows={windows}
            intervalMs={interval}
            series={[{ name: 'share', values: row?.missingShare ?? [], look: 'second', toText: toShare }]}
            range={[0, 0.05]}
            height={64}
          />
        </div>
      </div>
    </section>
  )
}

type Answer = NonNullable<Parameters<typeof toSide>[0]>

function Values({
  current,
  reference,
  feature,
  when,
}: {
  current: Answer
  reference: Answer | undefined
  feature: string
  when: string
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
  return (
    <div className={styles.column}>
      <Histogram feature={feature} bins={bins} {...sides} when={when} />
      {isNew.length > 0 && (
        <p className={styles.warning}>{`New: ${isNew.slice(0, 10).join(', ')}${isNew.length > 10 ? ', …' : ''}`}</p>
      )}
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
