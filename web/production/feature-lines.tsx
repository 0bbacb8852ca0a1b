import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { distribution } from '../api/monitoring.ts'
import { findCell, type OfFeature, useReferenceValues } from './feature-values.tsx'
import { TimeChart } from './time-chart.tsx'
import { toMeasure, toShare } from './words.ts'

const quantiles = ['0.05', '0.5', '0.95']

type Props = OfFeature & {
  /** In all of the height of its place. */
  isFilling?: boolean
}

/** How far a feature was from the reference in each window, with those marked in which it had drifted. */
export function FeatureDistance({ map, cell, isFilling }: Omit<Props, 'scope'>) {
  const { row } = findCell({ map, cell })
  const measure = row?.judgedBy.findLast((it) => it !== null)
  return (
    <TimeChart
      title={measure ? `Distance from the reference (${toMeasure(measure)})` : 'Distance from the reference'}
      windows={map.windows}
      intervalMs={map.interval}
      series={[{ name: 'distance', values: row?.value ?? [], look: 'first' }]}
      marked={row?.drifted.map((it) => it === true)}
      range={[0, 0.1]}
      isFilling={isFilling}
    />
  )
}

/** Some quantiles of a numeric feature in each window. Nothing for others, but what `children` says of them. */
export function FeatureQuantiles({ isFilling, children, ...of }: Props & { children?: ReactNode }) {
  const { scope, map, cell } = of
  const { windows, interval } = map
  const reference = useReferenceValues(of)
  const { data } = useQuery({
    ...distribution({
      ...scope,
      ...{ feature: cell.feature, part: cell.part, bins: 1 },
      ...{ from: windows[0]?.from, to: windows.at(-1)?.to, interval },
    }),
    placeholderData: keepPreviousData,
  })
  if (data?.type !== 'numeric') return data === undefined ? null : children
  const value = (q: string) =>
    windows.map((it) => data.windows.find(({ from }) => from === it.from)?.quantiles[q] ?? null)
  const median = reference.data?.windows[0]?.quantiles['0.5']
  return (
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
      isFilling={isFilling}
    />
  )
}

/** The share of events without a value of a feature in each window. */
export function FeatureMissing({ map, cell, isFilling }: Omit<Props, 'scope'>) {
  const { row } = findCell({ map, cell })
  return (
    <TimeChart
      title="Missing values"
      windows={map.windows}
      intervalMs={map.interval}
      series={[{ name: 'share', values: row?.missingShare ?? [], look: 'second', toText: toShare }]}
      range={[0, 0.05]}
      height={64}
      isFilling={isFilling}
    />
  )
}
