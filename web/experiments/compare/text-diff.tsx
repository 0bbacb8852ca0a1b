import { type UseQueryOptions, useQuery } from '@tanstack/react-query'
import { createTwoFilesPatch } from 'diff'
import { useMemo } from 'react'
import { code, output, patch } from '../../api/run.ts'
import { Select } from '../../kit/field.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { PatchView } from '../output/patch-view.tsx'
import { toText } from '../output/terminal.ts'
import styles from './compare.module.css'
import type { CompareSearch } from './compare-search.ts'
import type { ComparedRun } from './compared.ts'

type Kind = 'output' | 'code' | 'patch'
type Props = {
  of: Kind
  runs: ComparedRun[]
  left: string | undefined
  right: string | undefined
  onChange(change: Partial<CompareSearch>): void
}

const words: Record<Kind, string> = { output: 'output', code: 'code', patch: 'git patch' }
/** Texts that differ in everything take the square of their lines: then it gives up. */
const timeoutMs = 3_000

function toRead(of: Kind, key: string): UseQueryOptions<string | null> {
  const reads = { output: () => output(key), code: () => code(key), patch: () => patch(key) }
  return reads[of]() as unknown as UseQueryOptions<string | null>
}

/** What differs between the texts of two runs. */
export function TextDiff({ of, runs, left, right, onChange }: Props) {
  const a = runs.find((it) => it.experimentKey === left) ?? (runs[0] as ComparedRun)
  const b = runs.find((it) => it.experimentKey === right) ?? (runs.find((it) => it !== a) as ComparedRun)
  return (
    <div className={styles.texts}>
      <div className={styles.pair}>
        <Side label="Before" value={a} runs={runs} onChange={(it) => onChange({ left: it })} />
        <Side label="After" value={b} runs={runs} onChange={(it) => onChange({ right: it })} />
      </div>
      <Difference of={of} a={a} b={b} />
    </div>
  )
}

type SideProps = { label: string; value: ComparedRun; runs: ComparedRun[]; onChange(key: string): void }

function Side({ label, value, runs, onChange }: SideProps) {
  return (
    <span className={styles.choice}>
      <span aria-hidden="true">{label}</span>
      <Select aria-label={label} value={value.experimentKey} onChange={(event) => onChange(event.target.value)}>
        {runs.map((it) => (
          <option key={it.experimentKey} value={it.experimentKey}>
            {it.name}
          </option>
        ))}
      </Select>
    </span>
  )
}

function Difference({ of, a, b }: { of: Kind; a: ComparedRun; b: ComparedRun }) {
  const before = useQuery(toRead(of, a.experimentKey))
  const after = useQuery(toRead(of, b.experimentKey))
  const isReady = before.data !== undefined && after.data !== undefined
  const found = useMemo(() => {
    if (!isReady) return undefined
    const [old, now] = [before.data, after.data].map((it) => toLines(of, it ?? '')) as [string, string]
    if (old === now) return { isSame: true, patch: '' }
    return {
      isSame: false,
      patch: createTwoFilesPatch(a.name, b.name, old, now, '', '', { context: 4, timeout: timeoutMs }),
    }
  }, [isReady, before.data, after.data, of, a.name, b.name])
  const error = before.error ?? after.error
  if (error) return <ErrorPlace error={error} onRetry={() => Promise.all([before.refetch(), after.refetch()])} />
  if (!found) return <LoadingPlace />
  if (found.isSame) {
    const isNone = !before.data && !after.data
    return <EmptyPlace title={isNone ? `Neither run has a ${words[of]}` : `Both have the same ${words[of]}`} />
  }
  if (found.patch === undefined) {
    return (
      <EmptyPlace title="Too different">The two texts have too little in common to be shown line by line.</EmptyPlace>
    )
  }
  // The library begins with a line that only separates files.
  return <PatchView patch={found.patch.replace(/^=+\n/, '')} />
}

/** Colours and progress bars are no difference. */
const toLines = (of: Kind, text: string) => (of === 'output' ? text.split('\n').map(toText).join('\n') : text)
