import { useQuery } from '@tanstack/react-query'
import { driftMap, type ListedModel } from '../api/monitoring.ts'
import { toCountOf } from '../kit/text.ts'
import { type Level, toWindowLevel } from './drift-level.ts'
import { dayMs, toWindows } from './words.ts'

/** So many days of a model are shown at a glance. */
export const stripDays = 30

type Month = {
  /** Of each day. */
  levels: Level[]
  label: string
  /** Of the last day with a verdict: today may have few events yet. */
  verdict: string
  drifted: boolean | undefined
}

/** The verdicts on a model in the last days; undefined until they are there, and for a model without a reference. */
export function useMonthOfDrift(
  workspaceName: string,
  model: Pick<ListedModel, 'modelName' | 'lastEventAt' | 'datasetName'> | null | undefined,
  { refetchInterval }: { refetchInterval?: number } = {},
): Month | undefined {
  const { modelName = '', lastEventAt = null, datasetName = null } = model ?? {}
  const { data: map } = useQuery({
    ...driftMap(
      { workspaceName, modelName, ...toWindows(lastEventAt, stripDays, dayMs) },
      { hasReference: datasetName !== null },
    ),
    enabled: lastEventAt !== null,
    refetchInterval,
  })
  if (!map) return undefined
  const last = map.windows.findLast((it) => it.drifted !== null)
  const days = map.windows.filter((it) => it.drifted).length
  return {
    levels: map.windows.map(toWindowLevel),
    label: `Drifted on ${toCountOf(days, 'day')} of ${stripDays}`,
    verdict: last ? `${last.driftedFeatures} of ${toCountOf(last.judgedFeatures, 'feature')} drifted` : 'no verdict',
    drifted: last?.drifted ?? undefined,
  }
}
