import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { ContentOf, ModelChoice, Windows } from '../../api/dashboards.ts'
import { type DriftMap, delays, driftMap, firings, monitored, quality, type Scope } from '../../api/monitoring.ts'
import { ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { toAgo, toCount, toTime } from '../../kit/text.ts'
import { ModelFirings } from '../alerts/model-firings.tsx'
import { FeatureDistance, FeatureMissing, FeatureQuantiles } from '../feature-lines.tsx'
import { FeatureValues } from '../feature-values.tsx'
import { type Cell, HeatMap } from '../heat-map.tsx'
import { CoverageChart, DelayChart, QualityChart } from '../labels-tab.tsx'
import { Strip, Volume } from '../strip.tsx'
import { stripDays, useMonthOfDrift } from '../use-month-of-drift.ts'
import { toMeasure, toWindows } from '../words.ts'
import styles from './production-panels.module.css'

type Props<Kind extends 'model' | 'drift' | 'feature' | 'labels' | 'firings'> = {
  workspace: string
  content: ContentOf<Kind>
}

const againMs = 15_000
const mapAgainMs = 30_000

const Note = ({ children }: { children: ReactNode }) => <p className={styles.note}>{children}</p>

/** How a model in production is: its events, its verdict and what fires now. */
export function ModelPanel({ workspace, content: { modelName } }: Props<'model'>) {
  const name = { workspaceName: workspace, modelName }
  const { data: model, error, refetch } = useQuery({ ...monitored(name), refetchInterval: againMs })
  const month = useMonthOfDrift(workspace, model, { refetchInterval: mapAgainMs })
  if (error && model === undefined) return <ErrorPlace error={error} onRetry={refetch} />
  if (model === undefined) return <LoadingPlace rows={3} />
  if (model === null || model.lastEventAt === null) return <Note>{`${modelName} has sent no event yet.`}</Note>
  const { volume, lastEventAt, firing, datasetName } = model
  return (
    <dl className={styles.facts}>
      <div>
        <dt>Events</dt>
        <dd>
          <strong>{toCount(volume.reduce((sum, it) => sum + it, 0))}</strong>
          <Volume counts={volume} label={`Events by day, ${toCount(Math.max(0, ...volume))} at most`} />
          <span
            className={styles.soft}
            title={toTime(lastEventAt)}
          >{`in ${stripDays} days, the last ${toAgo(lastEventAt)}`}</span>
        </dd>
      </div>
      <div>
        <dt>Verdict</dt>
        <dd>
          {datasetName === null ? (
            <span className={styles.soft}>no reference</span>
          ) : (
            month && (
              <>
                <strong data-drifted={month.drifted}>{month.verdict}</strong>
                <span className={styles.strip}>
                  <Strip levels={month.levels} label={month.label} />
                </span>
              </>
            )
          )}
        </dd>
      </div>
      <div>
        <dt>Alerts</dt>
        <dd>
          {firing.length > 0 ? (
            <strong data-firing="" title={firing.map((it) => `${it.name}: ${toMeasure(it.measure)}`).join('\n')}>
              {`${firing.length} firing: ${firing.map((it) => it.name).join(', ')}`}
            </strong>
          ) : (
            <span className={styles.soft}>{model.rules === 0 ? 'no rule' : 'none fires'}</span>
          )}
        </dd>
      </div>
    </dl>
  )
}

type ScopedProps = {
  workspace: string
  content: ModelChoice & Windows
  children(scope: Scope, time: { from: number; to: number; interval: number }, hasReference: boolean): ReactNode
}

/** Which events a panel is about, until the last one there is. */
function Scoped({ workspace, content, children }: ScopedProps) {
  const { modelName, modelVersion, segment, windows, interval } = content
  const name = { workspaceName: workspace, modelName }
  const { data: model, error, refetch } = useQuery({ ...monitored(name), refetchInterval: againMs })
  if (error && model === undefined) return <ErrorPlace error={error} onRetry={refetch} />
  if (model === undefined) return <LoadingPlace rows={3} />
  if (model === null || model.lastEventAt === null) return <Note>{`${modelName} has sent no event yet.`}</Note>
  const scope = { ...name, modelVersion, segment }
  return children(scope, toWindows(model.lastEventAt, windows, interval), model.datasetName !== null)
}

type MappedProps = Omit<ScopedProps, 'children'> & { children(scope: Scope, map: DriftMap): ReactNode }

/** The verdicts on the features of a model. */
function Mapped({ children, ...rest }: MappedProps) {
  return (
    <Scoped {...rest}>
      {(scope, time, hasReference) => (
        <ReadMap scope={scope} time={time} hasReference={hasReference}>
          {children}
        </ReadMap>
      )}
    </Scoped>
  )
}

type ReadMapProps = {
  scope: Scope
  time: { from: number; to: number; interval: number }
  hasReference: boolean
  children: MappedProps['children']
}

function ReadMap({ scope, time, hasReference, children }: ReadMapProps) {
  const {
    data: map,
    error,
    refetch,
  } = useQuery({
    ...driftMap({ ...scope, ...time }, { hasReference }),
    refetchInterval: mapAgainMs,
    placeholderData: keepPreviousData,
  })
  if (error && map === undefined) return <ErrorPlace error={error} onRetry={refetch} />
  if (map === undefined) return <LoadingPlace rows={4} />
  if (map === null) return <Note>The model has no reference to be compared with.</Note>
  if (map.windows.length === 0 || map.features.length === 0) return <Note>No event in this time.</Note>
  return children(scope, map)
}

/** Every feature in every window; one that is chosen leads to the page of the model. */
export function DriftPanel({ workspace, content }: Props<'drift'>) {
  const navigate = useNavigate()
  const { modelName, modelVersion, segment, windows, interval } = content
  return (
    <Mapped workspace={workspace} content={content}>
      {(_, map) => (
        <HeatMap
          map={map}
          chosen={undefined}
          onChoose={({ feature, part, at }) =>
            void navigate({
              to: '/$workspace/-/production/$model',
              params: { workspace, model: modelName },
              search: {
                ...{ windows, interval, feature, at, version: modelVersion, segment },
                ...(part === 'prediction' && { part }),
              },
            })
          }
        />
      )}
    </Mapped>
  )
}

/** One feature against the reference, or over time. */
export function FeatureOnPanel({ workspace, content }: Props<'feature'>) {
  const { feature, part = 'feature', show } = content
  return (
    <Mapped workspace={workspace} content={content}>
      {(scope, map) => {
        const row = map.features.find((it) => it.name === feature && it.part === part)
        if (!row) return <Note>{`No event in this time has the ${part} ${feature}.`}</Note>
        const judged = row.drifted.findLastIndex((it) => it !== null)
        const at = map.windows.at(judged < 0 ? -1 : judged)?.from ?? 0
        const cell: Cell = { feature, part, at }
        const of = { scope, map, cell }
        switch (show) {
          case 'values':
            return <FeatureValues {...of} isFilling />
          case 'distance':
            return <FeatureDistance {...of} isFilling />
          case 'quantiles':
            return (
              <FeatureQuantiles {...of} isFilling>
                <Note>Only numbers have quantiles.</Note>
              </FeatureQuantiles>
            )
          case 'missing':
            return <FeatureMissing {...of} isFilling />
        }
      }}
    </Mapped>
  )
}

/** How good a model is by its labels, of how many predictions that is known, and how long labels take. */
export function LabelsPanel({ workspace, content }: Props<'labels'>) {
  return (
    <Scoped workspace={workspace} content={content}>
      {(scope, time) =>
        content.show === 'quality' ? (
          <QualityPanel scope={scope} time={time} />
        ) : (
          <DelayPanel scope={scope} time={time} show={content.show} />
        )
      }
    </Scoped>
  )
}

type OfTime = Pick<ReadMapProps, 'scope' | 'time'>

function QualityPanel({ scope, time }: OfTime) {
  const { data, error, refetch } = useQuery({
    ...quality({ ...scope, ...time }),
    refetchInterval: mapAgainMs,
    placeholderData: keepPreviousData,
  })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace rows={3} />
  if (data.task === null || data.windows.every((it) => it.labelled === 0)) return <Note>No label yet.</Note>
  return <QualityChart quality={data} intervalMs={time.interval} isFilling />
}

function DelayPanel({ scope, time, show }: OfTime & { show: 'coverage' | 'delay' }) {
  const { data, error, refetch } = useQuery({
    ...delays({ ...scope, ...time }),
    refetchInterval: mapAgainMs,
    placeholderData: keepPreviousData,
  })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace rows={3} />
  const Chart = show === 'coverage' ? CoverageChart : DelayChart
  return <Chart windows={data.windows} intervalMs={time.interval} isFilling />
}

const listedMax = 20

/** What the rules on a model found. */
export function ModelFiringsPanel({ workspace, modelName }: { workspace: string; modelName: string }) {
  const name = { workspaceName: workspace, modelName }
  const { data, error, refetch } = useQuery({ ...firings(name), refetchInterval: againMs })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace rows={3} />
  if (data.firings.length === 0) return <Note>No rule has fired.</Note>
  return <ModelFirings firings={data.firings} listedMax={listedMax} />
}
