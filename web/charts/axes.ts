import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { others } from '../api/run.ts'
import type { ShownRun } from '../kit/run-colour.ts'
import { type ChartState, toMetricAxis } from './chart-state.ts'

/** Begins the name of an other that says on which x axis a metric, or those that match a pattern such as `valid/*`, are drawn. */
const prefix = 'x axis of '
const plain = ['step', 'time', 'relative']

export type DefinedAxis = { of: string; x: string }

/** The axes that the first of some runs defines; those of others would hardly differ. */
export function useAxes(runs: ShownRun[]): DefinedAxis[] {
  const key = runs[0]?.experimentKey ?? ''
  const { data } = useQuery({ ...others(key), enabled: key !== '' })
  return useMemo(
    () =>
      (data ?? [])
        .filter((it) => it.name.startsWith(prefix))
        .map(({ name, valueCurrent: x }) => ({
          of: name.slice(prefix.length),
          x: plain.includes(x) ? x : toMetricAxis(x),
        })),
    [data],
  )
}

/** The axis of a metric: of its own name, or else of the longest pattern that matches it. */
function findAxis(axes: DefinedAxis[], name: string): string | undefined {
  const own = axes.find((it) => it.of === name)
  const matching = axes.filter((it) => toPattern(it.of).test(name)).sort((a, b) => b.of.length - a.of.length)
  const x = (own ?? matching[0])?.x
  return x === toMetricAxis(name) ? undefined : x
}

const toPattern = (of: string) => new RegExp(`^${of.split('*').map(RegExp.escape).join('.*')}$`, 's')

/**
 * How one chart looks while nobody has chosen an axis for all: on the axis that is defined for it. A range of that is its own, and
 * means nothing to the others.
 */
export function useOwnAxis(
  name: string,
  runs: ShownRun[],
  state: ChartState,
  onState: (change: Partial<ChartState>) => void,
): [ChartState, (change: Partial<ChartState>) => void] {
  const [zoom, setZoom] = useState<ChartState['zoom']>()
  const axes = useAxes(runs)
  const x = state.x === undefined ? findAxis(axes, name) : undefined
  const own = useMemo(() => ({ ...state, x, zoom }), [state, x, zoom])
  if (x === undefined) return [state, onState]
  const change = ({ zoom: range, ...rest }: Partial<ChartState>) => {
    setZoom(range)
    if (Object.keys(rest).length > 0) onState(rest)
  }
  return [own, change]
}
