import { type ComponentProps, useState } from 'react'
import { OneChart } from '../charts/one-chart.tsx'
import { DashboardPage } from '../dashboards/dashboard-page.tsx'
import type { Slots } from '../dashboards/slots.ts'
import { ChosenRuns } from '../experiments/panels/chosen-runs.tsx'
import { RunsPanel } from '../experiments/panels/runs-panel.tsx'

/** One dashboard. Rooms do not know each other, so what its panels show is put together here. */
export function DashboardRoute() {
  return <DashboardPage slots={slots} />
}

const slots: Slots = { Chart: ChartPanel, Runs: RunsPanel }

/** What the reader changes on a chart, such as a zoom, is theirs: the dashboard keeps how it was made. */
function ChartPanel({ workspace, project, content }: ComponentProps<Slots['Chart']>) {
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
