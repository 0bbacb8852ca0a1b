import { ChartsPanel } from '../charts/charts-panel.tsx'
import { RunPage } from '../experiments/run/run-page.tsx'
import { RegisterModel } from '../registry/register-model.tsx'

/** One run. Rooms do not know each other, so the page is put together here. */
export function RunRoute() {
  return <RunPage Charts={ChartsPanel} Register={RegisterModel} />
}
