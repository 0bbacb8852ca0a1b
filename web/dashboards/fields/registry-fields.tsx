import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { artifacts } from '../../api/artifacts/artifacts.ts'
import { readModels } from '../../api/registry.ts'
import { type FieldsProps, NameChoice } from './choice.tsx'

export function ArtifactFields({ workspace, project, given, children }: FieldsProps<'artifact'>) {
  const all = useQuery(artifacts(workspace)).data
  // Those of the project come first.
  const names = all
    ?.toSorted((a, b) => Number(b.project === project) - Number(a.project === project))
    .map((it) => it.artifactName)
  const [chosen, setName] = useState(given?.artifactName ?? '')
  const artifactName = chosen || names?.[0] || ''
  return children(
    artifactName === '' ? undefined : { kind: 'artifact', artifactName },
    <NameChoice
      label="Artifact"
      names={names}
      value={artifactName}
      onChange={setName}
      none="The workspace has no artifact yet."
    />,
  )
}

const modelsMax = 500

export function VersionsFields({ workspace, given, children }: FieldsProps<'versions'>) {
  const { data } = useQuery({
    queryKey: ['registry-models', workspace, 'names'],
    queryFn: ({ signal }) => readModels({ workspaceName: workspace, order: 'name', pageSize: modelsMax }, signal),
  })
  const names = data?.models.map((it) => it.modelName)
  const [chosen, setName] = useState(given?.modelName ?? '')
  const modelName = chosen || names?.[0] || ''
  return children(
    modelName === '' ? undefined : { kind: 'versions', modelName },
    <NameChoice
      label="Model"
      names={names}
      value={modelName}
      onChange={setName}
      none="The workspace has no registered model yet."
    />,
  )
}
