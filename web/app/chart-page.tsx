import { OneChart } from '../charts/one-chart.tsx'
import { ChartPage } from '../experiments/chart-page.tsx'

/** One chart alone. Rooms do not know each other, so the page is put together here. */
export function ChartRoute() {
  return <ChartPage Chart={OneChart} />
}
