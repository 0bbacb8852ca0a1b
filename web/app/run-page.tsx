import { lazy } from 'react'
import { ChartsPanel } from '../charts/charts-panel.tsx'
import { RunPage } from '../experiments/run/run-page.tsx'
import { RegisterModel } from '../registry/register-model.tsx'

const Files = lazy(() => import('../files/files-view.tsx').then((it) => ({ default: it.FilesView })))
const Lineage = lazy(() => import('../lineage/lineage-view.tsx').then((it) => ({ default: it.LineageView })))
const Media = lazy(() => import('../media/run-media.tsx').then((it) => ({ default: it.RunMedia })))

/** One run. Rooms do not know each other, so the page is put together here. */
export function RunRoute() {
  return <RunPage Charts={ChartsPanel} Register={RegisterModel} Files={Files} Lineage={Lineage} Media={Media} />
}
