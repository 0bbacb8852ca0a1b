import type { ShownRun } from './run-colour.ts'

/** Whether charts with this state draw one line for each group of runs, when the table is grouped. */
export const drawsGroups = (state: Record<string, unknown>) => state.groups !== 'runs'

/** What a page gives to the charts that it draws. */
export type ChartsProps = {
  workspace: string
  project: string
  /** The runs to draw, in the order of the table. */
  runs: ShownRun[]
  /** What the charts keep in the URL and in named views: the search parameter `charts` of the page. */
  state: Record<string, unknown>
  /** What to draw, in this order; absent: every metric of the project, by the first part of its name. */
  sections?: { name: string; metrics: { name: string; context: string }[] }[]
  /** Runs of the groups that are too many to be read, and are not among `runs`. */
  leftOut?: number
  /** The search parameters with which the page of one chart (`-/chart`) shows the same runs. */
  ofChart: Record<string, unknown>
  /** Changes some of it; undefined takes a field back to its default. */
  onState(change: Record<string, unknown>): void
}

/** What the page of one chart gives to it. */
export type OneChartProps = ChartsProps & { metric: { name: string; context: string } }
