import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { deleteModel, deleteVersion, type Model, refreshModel, updateModel, type Version } from '../api/registry.ts'
import { FormDialog } from '../kit/dialog.tsx'
import { Checkbox, TextArea, TextField } from '../kit/field.tsx'
import { toCountOf } from '../kit/text.ts'
import { toast } from '../kit/toast.tsx'

type Props = { workspaceName: string; model: Model; onClose(): void }

/** `onRenamed` leads to the page of the new name. */
export function EditModel({ workspaceName, model, onRenamed, onClose }: Props & { onRenamed(name: string): unknown }) {
  const [name, setName] = useState(model.modelName)
  const [description, setDescription] = useState(model.description)
  const [isPublic, setPublic] = useState(model.isPublic)
  const client = useQueryClient()
  const newName = name.trim()
  return (
    <FormDialog
      title={`Edit ${model.modelName}`}
      action="Save"
      canSubmit={newName !== ''}
      onClose={onClose}
      onSubmit={async () => {
        const it = { registryModelName: newName, description: description.trim(), isPublic }
        await updateModel(model.registryModelId, it)
        if (newName !== model.modelName) await onRenamed(newName)
        await refreshModel(client, { workspaceName, modelName: newName })
      }}
    >
      <TextField
        label="Name"
        hint="Programs and links that use the old name stop working. Webhooks of the model move along."
        maxLength={200}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <TextArea label="Description" value={description} onChange={(event) => setDescription(event.target.value)} />
      <Checkbox checked={isPublic} onChange={(event) => setPublic(event.target.checked)}>
        Everybody in the organization may read it
      </Checkbox>
    </FormDialog>
  )
}

export function DeleteModel({ workspaceName, model, onDeleted, onClose }: Props & { onDeleted(): unknown }) {
  const client = useQueryClient()
  const { modelName, numberOfVersions } = model
  return (
    <FormDialog
      title={`Delete the model ${modelName}?`}
      action={`Delete ${modelName}`}
      danger
      onClose={onClose}
      onSubmit={async () => {
        await deleteModel({ workspaceName, modelName })
        await onDeleted()
        client.removeQueries({ queryKey: ['registry', workspaceName, modelName] })
        await client.invalidateQueries({ queryKey: ['registry-models', workspaceName] })
        toast(`Deleted the model ${modelName}`)
      }}
    >
      <p>
        Its {toCountOf(numberOfVersions, 'version')} and the files in them go with it, for good. The runs keep their own
        files.
      </p>
    </FormDialog>
  )
}

type OfVersion = { workspaceName: string; modelName: string; version: Version; onDeleted(): unknown; onClose(): void }

export function DeleteVersion({ workspaceName, modelName, version, onDeleted, onClose }: OfVersion) {
  const client = useQueryClient()
  const title = `${modelName} ${version.version}`
  return (
    <FormDialog
      title={`Delete ${title}?`}
      action={`Delete ${version.version}`}
      danger
      onClose={onClose}
      onSubmit={async () => {
        await deleteVersion(version.registryModelItemId)
        await onDeleted()
        await refreshModel(client, { workspaceName, modelName })
        toast(`Deleted ${title}`)
      }}
    >
      {version.stages.length > 0 && <p>It is at {version.stages.join(', ')}.</p>}
      <p>Its files in the registry go with it, for good. The run that made it keeps its own.</p>
    </FormDialog>
  )
}
