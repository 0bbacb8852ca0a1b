import { type ComponentProps, lazy, useState } from 'react'
import { OneChart } from '../charts/one-chart.tsx'
import { DashboardPage } from '../dashboards/dashboard-page.tsx'
import type { Slots } from '../dashboards/slots.ts'
import { ChosenRuns } from '../experiments/panels/chosen-runs.tsx'
import { RunsPanel } from '../experiments/panels/runs-panel.tsx'

const Media = lazy(() => import('../media/media-panel.tsx').then((it) => ({ default: it.MediaPanel })))
const production = () => import('../production/panels/production-panels.tsx')
const ModelFirings = lazy(() => production().then((it) => ({ default: it.ModelFiringsPanel })))
const RunAlerts = lazy(() =>
  import('../experiments/alerts/alerts-panel.tsx').then((it) => ({ default: it.AlertsPanel })),
)

/** One dashboard. Rooms do not know each other, so what its panels show is put together here. */
export function DashboardRoute() {
  return <DashboardPage slots={slots} />
}

const slots: Slots = {
  chart: ChartPanel,
  runs: RunsPanel,
  media: MediaOfRuns,
  model: lazy(() => production().then((it) => ({ default: it.ModelPanel }))),
  drift: lazy(() => production().then((it) => ({ default: it.DriftPanel }))),
  feature: lazy(() => production().then((it) => ({ default: it.FeatureOnPanel }))),
  labels: lazy(() => production().then((it) => ({ default: it.LabelsPanel }))),
  firings: FiringsPanel,
  artifact: lazy(() => import('../artifacts/artifact-panel.tsx').then((it) => ({ default: it.ArtifactPanel }))),
  versions: lazy(() => import('../registry/versions-panel.tsx').then((it) => ({ default: it.VersionsPanel }))),
}

/** What the reader changes on a chart, such as a zoom, is theirs: the dashboard keeps how it was made. */
function ChartPanel({ workspace, project, content }: ComponentProps<Slots['chart']>) {
  const [changed, setChanged] = useState<Record<string, unknown>>({})
  const { metric, view, query, top } = content
  const state = { ...content.charts, ...changed }
  return (
    <ChosenRuns workspace={workspace} project={project} view={view} query={query} top={top}>
      {({ runs, leftOut, ofChart }) => (
        <OneChart
          workspace={workspace}
          project={project}
          metric={{ name: metric.name, context: metric.context ?? '' }}
          runs={runs}
          leftOut={leftOut}
          state={state}
          ofChart={ofChart}
          onState={(change) => setChanged((old) => ({ ...old, ...change }))}
        />
      )}
    </ChosenRuns>
  )
}

function MediaOfRuns({ workspace, project, content }: ComponentProps<Slots['media']>) {
  const { media, view, query, top } = content
  return (
    <ChosenRuns workspace={workspace} project={project} view={view} query={query} top={top}>
      {({ runs }) => <Media workspace={workspace} project={project} runs={runs} media={media} />}
    </ChosenRuns>
  )
}

function FiringsPanel({ workspace, project, content: { modelName } }: ComponentProps<Slots['firings']>) {
  return modelName === undefined ? (
    <RunAlerts workspace={workspace} project={project} />
  ) : (
    <ModelFirings workspace={workspace} modelName={modelName} />
  )
}
