import { ChartsPanel } from '../charts/charts-panel.tsx'
import { RunsPage } from '../experiments/runs-page.tsx'

/** The runs of a project, beside their charts. Rooms do not know each other, so the page is put together here. */
export function ProjectPage() {
  return <RunsPage Charts={ChartsPanel} />
}
