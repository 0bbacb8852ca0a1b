import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { driftMap, type Scope, type Time } from '../api/monitoring.ts'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toCountOf } from '../kit/text.ts'
import { sortByDrift } from './drift-level.ts'
import { FeaturePanel } from './feature-panel.tsx'
import { type Cell, HeatMap } from './heat-map.tsx'
import styles from './production.module.css'
import type { ProductionSearch } from './production-search.ts'
import { UploadReference } from './upload-reference.tsx'

const againMs = 30_000

type Props = {
  scope: Scope
  time: Time
  hasReference: boolean
  search: ProductionSearch
  onSearch(change: ProductionSearch): void
  onAddRule(on: { feature?: string; part?: 'prediction' }): void
}

/** Every feature in every window, and one of them at a time. */
export function DriftTab({ scope, time, hasReference, search, onSearch, onAddRule }: Props) {
  const {
    data: map,
    error,
    refetch,
  } = useQuery({
    ...driftMap({ ...scope, ...time }, { hasReference }),
    refetchInterval: againMs,
    placeholderData: keepPreviousData,
  })
  if (error && map === undefined) return <ErrorPlace error={error} onRetry={refetch} />
  if (map === undefined) return <LoadingPlace rows={12} />
  if (map === null) {
    return (
      <EmptyPlace title="Nothing to compare with yet">
        <p>
          Upload what the model was trained on, as CSV with the columns <code>feature_*</code>,{' '}
          <code>prediction_*</code> and <code>predictionId</code>: each window is then compared with it.
        </p>
        <UploadReference name={scope} />
      </EmptyPlace>
    )
  }
  if (map.windows.length === 0 || map.features.length === 0) {
    return (
      <EmptyPlace title="No event in this time">Choose a longer time, another version or another segment.</EmptyPlace>
    )
  }
  const worst = sortByDrift(map.features)[0]
  const lastDrifted = worst ? worst.drifted.lastIndexOf(true) : -1
  const fallback = map.windows[lastDrifted < 0 ? map.windows.length - 1 : lastDrifted]
  const cell: Cell = {
    feature: search.feature ?? worst?.name ?? '',
    part: search.part ?? (search.feature === undefined && worst?.part === 'prediction' ? 'prediction' : 'feature'),
    at: map.windows.some((it) => it.from === search.at) ? (search.at as number) : (fallback?.from ?? 0),
  }
  return (
    <>
      <p className={styles.lead}>
        {`Compared with ${map.reference.datasetName} (${toCountOf(map.reference.events, 'event')}${
          map.reference.ofSegment ? ' of the segment' : ''
        }).${map.reference.ofSegment === false ? ' It has no event of the segment, so all of it is compared.' : ''}`}
      </p>
      <HeatMap
        map={map}
        chosen={cell}
        onChoose={({ feature, part, at }) => onSearch({ feature, part: part === 'prediction' ? part : undefined, at })}
      />
      <FeaturePanel
        scope={scope}
        map={map}
        cell={cell}
        onAddRule={() => onAddRule({ feature: cell.feature, ...(cell.part === 'prediction' && { part: cell.part }) })}
      />
    </>
  )
}
