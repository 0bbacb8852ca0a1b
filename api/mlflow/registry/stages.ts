import { HttpError } from '../../../http/errors.ts'

/**
 * A version of MLflow is in one stage. Ours may have any number, of which these are the ones that clients of MLflow know; the
 * others stay as they are.
 */
const known = ['Production', 'Staging', 'Archived'] as const
const noStage = 'None'
export const allStages: string[] = [noStage, ...known]

export const toCurrentStage = (stages: string[]): string => known.find((it) => stages.includes(it)) ?? noStage

/** The stages of a version that is moved to a stage. */
export const toStages = (stages: string[], to: string): string[] => [
  ...stages.filter((it) => !allStages.includes(it)),
  ...(to === noStage ? [] : [to]),
]

/** A stage as it is written, whatever the case. @throws HttpError `badRequest` */
export function parseStage(given: string): string {
  const found = allStages.find((it) => it.toLowerCase() === given.toLowerCase())
  if (found !== undefined) return found
  throw new HttpError('badRequest', `stage: must be one of ${allStages.join(', ')}, not "${given.slice(0, 200)}"`)
}
