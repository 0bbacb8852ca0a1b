import { parseRunsSearch, type RunsSearch } from './runs-search.ts'

/** The page of one chart: a metric, and runs as on the page of the project, or by their keys. */
export type ChartSearch = RunsSearch & { metric?: string; context?: string; runs?: string[] }

const runsMax = 100

export function parseChartSearch(given: Record<string, unknown>): ChartSearch {
  const text = (it: unknown) => (it === undefined || it === '' ? undefined : String(it))
  const { runs } = given
  return {
    ...parseRunsSearch(given),
    metric: text(given.metric),
    context: text(given.context),
    runs: Array.isArray(runs) && runs.length > 0 ? runs.slice(0, runsMax).map(String) : undefined,
  }
}
