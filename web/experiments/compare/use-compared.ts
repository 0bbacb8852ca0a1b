import { useQueries } from '@tanstack/react-query'
import { metadata, metrics, parameters } from '../../api/run.ts'
import { type ComparedRun, toId } from './compared.ts'

/** Reads the parameters and the metrics of all runs. */
export function useCompared(keys: string[]): { runs: ComparedRun[]; isLoading: boolean; error: Error | null } {
  const about = useQueries({ queries: keys.map((key) => ({ ...metadata(key), refetchInterval: 30_000 })) })
  const set = useQueries({ queries: keys.map((key) => ({ ...parameters(key), refetchInterval: 30_000 })) })
  const measured = useQueries({ queries: keys.map((key) => ({ ...metrics(key), refetchInterval: 30_000 })) })
  const all = [...about, ...set, ...measured]
  const runs = keys.map((experimentKey, at) => ({
    experimentKey,
    name: about[at]?.data?.experimentName ?? experimentKey,
    values: new Map([
      ...(set[at]?.data ?? []).map((it) => [toId('parameter', it.name), it.valueCurrent] as const),
      ...(measured[at]?.data ?? []).map((it) => [toId('metric', it.name), it.valueCurrent] as const),
    ]),
  }))
  return { runs, isLoading: all.some((it) => it.isPending), error: all.find((it) => it.error)?.error ?? null }
}
