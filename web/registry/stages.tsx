import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { addStage, refreshModel, removeStage, type Version, versions } from '../api/registry.ts'
import { IconButton } from '../kit/button.tsx'
import { Input } from '../kit/field.tsx'
import { CloseIcon, PlusIcon } from '../kit/icons.tsx'
import { toast, toastError } from '../kit/toast.tsx'
import styles from './registry.module.css'

/** Stages that most teams have; those of the model's other versions come first. */
const usual = ['staging', 'production', 'archived']

type Props = { workspaceName: string; modelName: string; version: Version; isWritable: boolean }

/** The stages of a version, to be added and removed. */
export function Stages({ workspaceName, modelName, version, isWritable }: Props) {
  const name = { workspaceName, modelName }
  const { registryModelItemId: id, stages } = version
  const others = useQuery(versions(name)).data ?? []
  const [isAdding, setAdding] = useState(false)
  const client = useQueryClient()
  const listId = useId()
  const known = [...new Set([...others.flatMap((it) => it.stages), ...usual])].filter((it) => !stages.includes(it))
  async function change(write: () => Promise<unknown>) {
    await write()
    await refreshModel(client, name)
  }
  function add(text: string) {
    setAdding(false)
    const stage = text.trim()
    if (stage !== '' && !stages.includes(stage)) change(() => addStage(id, stage)).catch(toastError)
  }
  async function remove(stage: string) {
    await change(() => removeStage(id, stage))
    toast(`${version.version} is no longer at ${stage}`, {
      action: { label: 'Undo', run: () => void change(() => addStage(id, stage)).catch(toastError) },
    })
  }
  return (
    <ul className={styles.stages} aria-label={`Stages of ${version.version}`}>
      {stages.map((it) => (
        <li key={it} className={styles.stage}>
          <span title={it}>{it}</span>
          {isWritable && (
            <button type="button" aria-label={`Remove the stage ${it}`} onClick={() => remove(it).catch(toastError)}>
              <CloseIcon size={10} />
            </button>
          )}
        </li>
      ))}
      {isWritable && (
        <li>
          {isAdding ? (
            <>
              <Input
                autoFocus
                aria-label="New stage"
                className={styles.newStage}
                maxLength={200}
                list={listId}
                onBlur={(event) => add(event.target.value)}
                onKeyDown={(event) => {
                  if (event.key === 'Enter') add(event.currentTarget.value)
                  if (event.key === 'Escape') setAdding(false)
                }}
              />
              <datalist id={listId}>
                {known.map((it) => (
                  <option key={it} value={it} />
                ))}
              </datalist>
            </>
          ) : (
            <IconButton label={`Add a stage to ${version.version}`} size="small" onClick={() => setAdding(true)}>
              <PlusIcon size={14} />
            </IconButton>
          )}
        </li>
      )}
    </ul>
  )
}
