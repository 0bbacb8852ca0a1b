import type { HttpLoadSettings } from './http-load.ts'
import type { LoadReport } from './load-report.ts'

/** Messages between the bench and its load process. */
export type LoadOrder =
  | ({ kind: 'prepareHttp' } & HttpLoadSettings)
  | { kind: 'prepareRaw'; clickhouseUrl: string; experimentIds: string[] }
  | { kind: 'run'; seconds: number; pointsPerSecond?: number }

export type LoadAnswer =
  | { kind: 'prepared' }
  | { kind: 'ran'; report: LoadReport }
  | { kind: 'failed'; message: string }
