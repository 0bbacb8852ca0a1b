import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import {
  createProject,
  deleteProject,
  type Project,
  projects,
  refreshProjects,
  restoreProject,
  updateProject,
} from '../api/projects.ts'
import { FormDialog } from '../kit/dialog.tsx'
import { Checkbox, TextArea, TextField } from '../kit/field.tsx'
import { toCountOf } from '../kit/text.ts'
import { toast, toastError } from '../kit/toast.tsx'

export function NewProject({ workspace, onClose }: { workspace: string; onClose(): void }) {
  const [name, setName] = useState('')
  const [description, setDescription] = useState('')
  const client = useQueryClient()
  return (
    <FormDialog
      title="New project"
      action="Create project"
      canSubmit={name.trim() !== ''}
      onClose={onClose}
      onSubmit={async () => {
        await createProject({
          workspaceName: workspace,
          projectName: name.trim(),
          projectDescription: description.trim(),
        })
        await client.invalidateQueries(projects(workspace))
      }}
    >
      <TextField
        label="Name"
        autoFocus
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <TextArea label="Description" value={description} onChange={(event) => setDescription(event.target.value)} />
    </FormDialog>
  )
}

export function EditProject({ project, onClose }: { project: Project; onClose(): void }) {
  const [name, setName] = useState(project.projectName)
  const [description, setDescription] = useState(project.projectDescription)
  const [isPublic, setPublic] = useState(project.isPublic)
  const client = useQueryClient()
  return (
    <FormDialog
      title="Edit project"
      action="Save"
      canSubmit={name.trim() !== ''}
      onClose={onClose}
      onSubmit={async () => {
        await updateProject(project.projectId, {
          newProjectName: name.trim(),
          newProjectDescription: description.trim(),
          isPublic,
        })
        await client.invalidateQueries(projects(project.workspaceName))
      }}
    >
      <TextField
        label="Name"
        hint="Links and training code that use the old name stop working."
        autoFocus
        maxLength={100}
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

export function DeleteProject({ project, onClose }: { project: Project; onClose(): void }) {
  const [withRuns, setWithRuns] = useState(false)
  const client = useQueryClient()
  const { projectId, workspaceName, projectName, numberOfExperiments } = project
  const undo = async () => {
    await restoreProject(projectId)
    await refreshProjects(client, workspaceName)
  }
  return (
    <FormDialog
      title={`Delete ${projectName}?`}
      action="Delete project"
      danger
      onClose={onClose}
      onSubmit={async () => {
        await deleteProject({ workspaceName, projectName, deleteAllExperiments: withRuns })
        toast(`Deleted ${projectName}`, { action: { label: 'Undo', run: () => undo().catch(toastError) } })
        await refreshProjects(client, workspaceName)
      }}
    >
      {numberOfExperiments === 0 ? (
        <p>It has no runs.</p>
      ) : (
        <>
          <p>Its {toCountOf(numberOfExperiments, 'run')} will move to the project “Uncategorized Experiments”.</p>
          <Checkbox checked={withRuns} onChange={(event) => setWithRuns(event.target.checked)}>
            Delete the runs too
          </Checkbox>
        </>
      )}
      <p>For a while it can be restored, with all that was there.</p>
    </FormDialog>
  )
}
