import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type MediaName, mediaKey, mediaSteps, readMediaNames } from '../api/artifacts/media.ts'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { Group } from './group.tsx'
import styles from './media.module.css'
import { StepSlider } from './step-slider.tsx'

const againMs = 10_000
const namesMax = 100

type Props = {
  workspace: string
  project: string
  runs: { experimentKey: string; name: string }[]
  media: Pick<MediaName, 'kind' | 'name'>
}

/** The media of one name of some runs beside each other, at a step that the reader chooses. */
export function MediaPanel({ workspace, project, runs, media }: Props) {
  const [step, setStep] = useState<number>()
  const [isAll, setAll] = useState(false)
  const keys = runs.map((it) => it.experimentKey)
  const names = useQuery({
    queryKey: mediaKey(keys, 'names of a panel', media.kind, media.name),
    queryFn: ({ signal }) =>
      readMediaNames({ experimentKeys: keys, kind: media.kind, search: media.name, pageSize: namesMax }, signal),
    enabled: keys.length > 0,
    refetchInterval: againMs,
  })
  const steps = useQuery({ ...mediaSteps(keys), enabled: keys.length > 0, refetchInterval: againMs })
  if (names.error && !names.data) return <ErrorPlace error={names.error} onRetry={() => names.refetch()} />
  if (keys.length === 0) return <p className={styles.faint}>No run matches.</p>
  if (!names.data) return <LoadingPlace rows={4} />
  const of = names.data.names.find((it) => it.name === media.name)
  if (!of) return <p className={styles.faint}>{`None of the runs has logged ${media.name}.`}</p>
  return (
    <div className={styles.panel}>
      <Group {...{ workspace, project, runs, of, step, isAll }} isLive onAll={() => setAll(true)} />
      {!isAll && of.steps > 0 && steps.data && <StepSlider {...steps.data} step={step} onStep={setStep} />}
    </div>
  )
}
