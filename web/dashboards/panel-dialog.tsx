import { type ComponentType, useState } from 'react'
import type { Content, Panel } from '../api/dashboards.ts'
import { FormDialog } from '../kit/dialog.tsx'
import { TextField } from '../kit/field.tsx'
import type { FieldsProps, Place } from './fields/choice.tsx'
import { FileFields, MediaFields } from './fields/file-fields.tsx'
import { ChartFields, ValueFields } from './fields/metric-fields.tsx'
import { DriftFields, FeatureFields, FiringsFields, LabelsFields, ModelFields } from './fields/production-fields.tsx'
import { ArtifactFields, VersionsFields } from './fields/registry-fields.tsx'
import { RunsFields } from './fields/runs-fields.tsx'
import { TextFields } from './fields/text-fields.tsx'
import { type Kind, kinds } from './panel-kinds.ts'

const fieldsOf: { [Of in Kind]: ComponentType<FieldsProps<Of>> } = {
  chart: ChartFields,
  value: ValueFields,
  runs: RunsFields,
  media: MediaFields,
  file: FileFields,
  model: ModelFields,
  drift: DriftFields,
  feature: FeatureFields,
  labels: LabelsFields,
  firings: FiringsFields,
  artifact: ArtifactFields,
  versions: VersionsFields,
  text: TextFields,
}

type Props = Place & {
  kind: Kind
  /** Absent: a new one. */
  panel?: Panel
  onSave(content: Content, title: string): Promise<unknown>
  onClose(): void
}

/** Adds a panel of a kind, or changes what one shows. */
export function PanelDialog({ kind, panel, onSave, onClose, ...place }: Props) {
  const [title, setTitle] = useState(panel?.title ?? '')
  const Fields = fieldsOf[kind] as ComponentType<FieldsProps<Kind>>
  const { label, about } = kinds[kind]
  return (
    <Fields {...place} given={panel?.content}>
      {(content, fields) => (
        <FormDialog
          title={panel ? `Edit the panel: ${label}` : `Add a panel: ${label}`}
          action={panel ? 'Save' : 'Add panel'}
          canSubmit={content !== undefined}
          width={560}
          onClose={onClose}
          onSubmit={async () => content && (await onSave(content, title.trim()))}
        >
          {fields}
          <TextField
            label="Title"
            hint={`Empty: the name of what it shows. ${label}: ${about}.`}
            maxLength={200}
            value={title}
            onChange={(event) => setTitle(event.target.value)}
          />
        </FormDialog>
      )}
    </Fields>
  )
}
