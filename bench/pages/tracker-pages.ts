import type { Size } from './data.ts'

/** High enough for twelve small charts of ours and of trackio. */
export const viewport = { width: 1600, height: 1400 }

/** The web pages of a tracker that runs, with data in them. */
export type TrackerPages = {
  name: string
  version: string
  write(project: string, size: Size): Promise<void>
  /** From the address of the runs of a project until the first of them are on the screen; milliseconds. */
  measureRows(project: string): Promise<number>
  /** From the address of the charts of all runs until the charts in sight are drawn; milliseconds. */
  measureCharts(project: string, size: Size): Promise<number>
  /** Leaves its page, which goes on asking and drawing as long as it is open. */
  leave(): Promise<unknown>
}
