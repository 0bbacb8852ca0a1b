import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import {
  type FeatureView,
  featureViews,
  type LabelView,
  labelViews,
  type ModelChoice,
  type Windows,
} from '../../api/dashboards.ts'
import { featureNames, modelNames, segments, versionsOf } from '../../api/monitoring.ts'
import { Select } from '../../kit/field.tsx'
import styles from '../dashboards.module.css'
import { featureWords, labelWords } from '../panel-kinds.ts'
import { Choice, type FieldsProps, NameChoice } from './choice.tsx'

export function ModelFields({ workspace, given, children }: FieldsProps<'model'>) {
  const [modelName, field] = useModelName(workspace, given?.modelName)
  return children(modelName === '' ? undefined : { kind: 'model', modelName }, field)
}

export function DriftFields({ workspace, given, children }: FieldsProps<'drift'>) {
  const { scope, modelField, scopeFields } = useScope(workspace, given)
  return children(
    scope && { kind: 'drift', ...scope },
    <>
      {modelField}
      {scopeFields}
    </>,
  )
}

type Named = { feature: string; part?: 'prediction' }
const toId = ({ feature, part }: Named) => `${part ?? 'feature'}/${feature}`
const toFeatureName = ({ feature, part }: Named) => (part ? `${feature} (${part})` : feature)

export function FeatureFields({ workspace, given, children }: FieldsProps<'feature'>) {
  const { scope, modelField, scopeFields } = useScope(workspace, given)
  const [chosen, setFeature] = useState(given ? toId(given) : '')
  const [show, setShow] = useState<FeatureView>(given?.show ?? 'values')
  const modelName = scope?.modelName ?? ''
  const known = useQuery({ ...featureNames({ workspaceName: workspace, modelName }), enabled: scope !== undefined })
    .data?.filter((it) => it.part !== 'label')
    .map(({ name, part }): Named => ({ feature: name, ...(part === 'prediction' && { part }) }))
  const isOfModel = modelName === given?.modelName
  const current = known?.find((it) => toId(it) === chosen) ?? (isOfModel ? given : undefined) ?? known?.[0]
  const content = scope &&
    current && {
      ...{ kind: 'feature' as const, feature: current.feature, show, ...scope },
      ...(current.part && { part: current.part }),
    }
  return children(
    content,
    <>
      {modelField}
      {current && (
        <Choice label="Feature" value={toId(current)} onChange={setFeature}>
          {!known?.some((it) => toId(it) === toId(current)) && (
            <option value={toId(current)}>{toFeatureName(current)}</option>
          )}
          {known?.map((it) => (
            <option key={toId(it)} value={toId(it)}>
              {toFeatureName(it)}
            </option>
          ))}
        </Choice>
      )}
      {known?.length === 0 && <p className={styles.note}>The model has no feature yet.</p>}
      <Choice label="Shown" value={show} onChange={(it) => setShow(it as FeatureView)}>
        {featureViews.map((it) => (
          <option key={it} value={it}>
            {featureWords[it]}
          </option>
        ))}
      </Choice>
      {scopeFields}
    </>,
  )
}

export function LabelsFields({ workspace, given, children }: FieldsProps<'labels'>) {
  const { scope, modelField, scopeFields } = useScope(workspace, given)
  const [show, setShow] = useState<LabelView>(given?.show ?? 'quality')
  return children(
    scope && { kind: 'labels', show, ...scope },
    <>
      {modelField}
      <Choice label="Shown" value={show} onChange={(it) => setShow(it as LabelView)}>
        {labelViews.map((it) => (
          <option key={it} value={it}>
            {labelWords[it]}
          </option>
        ))}
      </Choice>
      {scopeFields}
    </>,
  )
}

export function FiringsFields({ workspace, project, given, children }: FieldsProps<'firings'>) {
  const names = useQuery(modelNames(workspace)).data ?? []
  const [modelName, setModel] = useState(given?.modelName ?? '')
  return children(
    { kind: 'firings', ...(modelName !== '' && { modelName }) },
    <Choice label="Alerts of" value={modelName} onChange={setModel}>
      <option value="">{`the runs of ${project}`}</option>
      {withOwn(names, modelName).map((it) => (
        <option key={it} value={it}>
          {`${it} in production`}
        </option>
      ))}
    </Choice>,
  )
}

/** The chosen model, at first the first one, and the field that chooses it. */
function useModelName(workspace: string, given: string | undefined) {
  const names = useQuery(modelNames(workspace)).data
  const [chosen, setName] = useState(given ?? '')
  const name = chosen || names?.[0] || ''
  const field = (
    <NameChoice
      label="Model"
      names={names}
      value={name}
      onChange={setName}
      none="No model of the workspace reports from production yet."
    />
  )
  return [name, field] as const
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const lengths: [ms: number, words: string][] = [
  [hourMs, 'of an hour'],
  [6 * hourMs, 'of 6 hours'],
  [dayMs, 'of a day'],
  [7 * dayMs, 'of 7 days'],
]
const counts = [14, 30, 60, 90]
const windowsDefault = 30

/** Which events of which model a panel is about, and the fields for them. */
function useScope(workspace: string, given: (ModelChoice & Windows) | undefined) {
  const [modelName, modelField] = useModelName(workspace, given?.modelName)
  const name = { workspaceName: workspace, modelName }
  const enabled = modelName !== ''
  const [chosenVersion, setVersion] = useState(given?.modelVersion ?? '')
  const [chosenSegment, setSegment] = useState(given?.segment ?? '')
  const [windows, setWindows] = useState(given?.windows ?? windowsDefault)
  const [interval, setInterval] = useState(given?.interval ?? dayMs)
  const versions = (useQuery({ ...versionsOf(name), enabled }).data ?? []).map((it) => it.modelVersion)
  const saved = (useQuery({ ...segments(name), enabled }).data?.segments ?? []).map((it) => it.name)
  // Those of another model do not count.
  const isGiven = modelName === given?.modelName
  const version = isGiven || versions.includes(chosenVersion) ? chosenVersion : ''
  const segment = isGiven || saved.includes(chosenSegment) ? chosenSegment : ''
  const scope: (ModelChoice & Windows) | undefined = enabled
    ? {
        ...{ modelName, windows, interval },
        ...(version !== '' && { modelVersion: version }),
        ...(segment !== '' && { segment }),
      }
    : undefined
  const scopeFields = enabled && (
    <>
      <fieldset className={styles.group}>
        <legend>Time, until the last event</legend>
        <div className={styles.beside}>
          <Select aria-label="Windows" value={windows} onChange={(event) => setWindows(Number(event.target.value))}>
            {[...new Set([...counts, windows])].map((it) => (
              <option key={it} value={it}>{`${it} windows`}</option>
            ))}
          </Select>
          <Select
            aria-label="Length of a window"
            value={interval}
            onChange={(event) => setInterval(Number(event.target.value))}
          >
            {lengths.map(([ms, words]) => (
              <option key={ms} value={ms}>
                {words}
              </option>
            ))}
          </Select>
        </div>
      </fieldset>
      <PartChoice label="Version" names={versions} value={version} onChange={setVersion} />
      <PartChoice label="Segment" names={saved} value={segment} onChange={setSegment} />
    </>
  )
  return { scope, modelField, scopeFields }
}

type PartProps = { label: string; names: string[]; value: string; onChange(name: string): void }

/** All of a model, or one part of it. */
function PartChoice({ label, names, value, onChange }: PartProps) {
  const shown = withOwn(names, value).filter((it) => it !== '')
  if (shown.length === 0) return null
  return (
    <Choice label={label} value={value} onChange={onChange}>
      <option value="">all</option>
      {shown.map((it) => (
        <option key={it}>{it}</option>
      ))}
    </Choice>
  )
}

/** One that is there no more is kept until another is chosen. */
const withOwn = (names: string[], own: string) => (own === '' || names.includes(own) ? names : [own, ...names])
