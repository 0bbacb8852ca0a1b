import { useQuery } from '@tanstack/react-query'
import { type ComponentType, useMemo } from 'react'
import { live, system } from '../../api/run.ts'
import type { ChartsProps } from '../../kit/charts-slot.ts'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'

type Props = Omit<ChartsProps, 'sections'> & {
  Charts: ComponentType<ChartsProps>
  experimentKey: string
  isLive: boolean
}

/** What the load of a machine is drawn over, as it has no steps. */
const axis = 'relative'

/** How busy the machine was: every worker and every GPU has its own charts. */
export function SystemTab({ Charts, experimentKey, isLive, state, onState, ...rest }: Props) {
  const { data, error, refetch } = useQuery({ ...system(experimentKey), ...live(isLive) })
  const names = data?.systemMetricNames
  const sections = useMemo(() => toSections(names ?? []), [names])
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  if (sections.length > 0) {
    return (
      <Charts
        {...rest}
        sections={sections}
        state={{ x: axis, ...state }}
        // The charts leave out what is as usual for them, and that is steps.
        onState={(change) => onState('x' in change ? { ...change, x: change.x ?? 'step' } : change)}
      />
    )
  }
  return (
    <EmptyPlace title="No resource usage">
      The client logs the load of processors, memory and GPUs while the run goes on.
    </EmptyPlace>
  )
}

function toSections(names: string[]) {
  return [...Map.groupBy(names, toGroup)].map(([name, members]) => ({
    name,
    metrics: members.map((it) => ({ name: it, context: '' })),
  }))
}

const kinds: [RegExp, (found: RegExpExecArray) => string][] = [
  [/sys\.gpu\.(\d+)\./, ([, gpu]) => `GPU ${gpu}`],
  [/sys\.cpu\./, () => 'Processors'],
  [/sys\.ram\./, () => 'Memory'],
  [/sys\.load\./, () => 'Load'],
]

function toGroup(name: string): string {
  for (const [pattern, toName] of kinds) {
    const found = pattern.exec(name)
    if (found) return toName(found)
  }
  return name.includes('/') ? (name.split('/')[0] as string) : 'Metrics'
}
