import { useQuery } from '@tanstack/react-query'
import { useDeferredValue, useMemo } from 'react'
import { knownColumns } from '../api/runs.ts'
import type { ChartsProps } from '../kit/charts-slot.ts'
import { RightIcon } from '../kit/icons.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toCount, toCountOf } from '../kit/text.ts'
import { useAxes } from './axes.ts'
import { ChartCard, toTitle } from './chart-card.tsx'
import { type ChartState, parseChartState } from './chart-state.ts'
import styles from './charts-panel.module.css'
import { ChartsToolbar } from './charts-toolbar.tsx'
import { FullChart } from './full-chart.tsx'
import { toGivenSections, toSections } from './sections.ts'
import { useCopies } from './use-copies.ts'
import type { Metric } from './use-lines.ts'

const heights = { small: 160, medium: 220, large: 340 }

/**
 * The charts of some runs: one for each metric of the project, all runs on each. Used beside the table of runs, and on the page
 * of one run. What is chosen is in `state`, which the page keeps in its URL.
 */
export function ChartsPanel(props: ChartsProps) {
  const { workspace, project, runs, leftOut, sections: givenSections, state: given, onState } = props
  const copies = useCopies(props)
  const axes = useAxes(runs)
  const state = useMemo(() => parseChartState(given), [given])
  const change = (it: Partial<ChartState>) => onState(it)
  const known = useQuery({ ...knownColumns(workspace, project), refetchInterval: 10_000 })
  const metrics = useMemo(
    () => givenSections?.flatMap((it) => it.metrics) ?? toMetrics(known.data ?? []),
    [known.data, givenSections],
  )
  const search = useDeferredValue(state.search)
  const sections = useMemo(() => {
    const searched = { ...state, search }
    return givenSections ? toGivenSections(givenSections, searched) : toSections(metrics, searched)
  }, [metrics, givenSections, state, search])
  const full = state.full === undefined ? undefined : metrics.find((it) => toTitle(it) === state.full)
  if (known.error) return <ErrorPlace error={known.error} onRetry={() => known.refetch()} />
  if (!known.data) return <LoadingPlace rows={8} />
  if (metrics.length === 0) {
    return (
      <EmptyPlace title="No metric yet">
        The charts appear with the first point, such as <code>experiment.log_metric("loss", 0.5, step=1)</code>.
      </EmptyPlace>
    )
  }
  return (
    <div className={styles.panel}>
      <ChartsToolbar
        state={state}
        onState={change}
        metrics={metrics}
        hasGroups={runs.some((it) => it.group)}
        hasOwnAxes={axes.length > 0}
      />
      {leftOut ? (
        <p
          className={styles.note}
        >{`Without ${toCountOf(leftOut, 'run')} of large groups or of groups further down.`}</p>
      ) : null}
      {sections.length === 0 && (
        <EmptyPlace title="No metric matches">{`Nothing is called like ${search}.`}</EmptyPlace>
      )}
      {sections.map(({ name, metrics: members, isOpen }) => (
        <section key={name} aria-label={name}>
          <h2 className={styles.section}>
            <button type="button" aria-expanded={isOpen} onClick={() => change(toggle(state, name, isOpen))}>
              <span className={isOpen ? styles.open : undefined}>
                <RightIcon size={14} />
              </span>
              {name}
              <span className={styles.count}>{toCount(members.length)}</span>
            </button>
          </h2>
          {isOpen && (
            <div className={styles.grid} data-size={state.size ?? 'medium'}>
              {members.map((it) => (
                <ChartCard
                  key={toTitle(it)}
                  metric={it}
                  runs={runs}
                  state={state}
                  onState={change}
                  height={heights[state.size ?? 'medium']}
                  copies={copies}
                />
              ))}
            </div>
          )}
        </section>
      ))}
      {full && <FullChart metric={full} runs={runs} state={state} onState={change} copies={copies} />}
    </div>
  )
}

type KnownMetric = { source: string; name: string; context?: string }

function toMetrics(columns: KnownMetric[]): Metric[] {
  const found = new Map<string, Metric>()
  for (const { source, name, context = '' } of columns) {
    if (source === 'metric') found.set(JSON.stringify([name, context]), { name, context })
  }
  return [...found.values()]
}

function toggle({ closed = [], opened = [] }: ChartState, name: string, isOpen: boolean): Partial<ChartState> {
  const orNothing = (it: string[]) => (it.length > 0 ? it : undefined)
  const without = (all: string[]) => all.filter((it) => it !== name)
  return isOpen
    ? { closed: orNothing([...without(closed), name]), opened: orNothing(without(opened)) }
    : { closed: orNothing(without(closed)), opened: orNothing([...without(opened), name]) }
}
