import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { addTags, removeTags } from '../../api/experiments.ts'
import { tags } from '../../api/run.ts'
import { IconButton } from '../../kit/button.tsx'
import { Input } from '../../kit/field.tsx'
import { CloseIcon, PlusIcon } from '../../kit/icons.tsx'
import { toastError } from '../../kit/toast.tsx'
import { useMayWrite } from '../../kit/use-may-write.ts'
import styles from './run-page.module.css'

type Props = { experimentKey: string; workspaceName: string }

/** The tags of a run, to be added and removed by those who may. */
export function TagsEditor({ experimentKey, workspaceName }: Props) {
  const mayWrite = useMayWrite(workspaceName)
  const { data = [] } = useQuery(tags(experimentKey))
  const [isAdding, setAdding] = useState(false)
  const client = useQueryClient()
  const { queryKey } = tags(experimentKey)
  async function change(next: string[], write: () => Promise<unknown>) {
    client.setQueryData(queryKey, next)
    await write().catch(toastError)
    await client.invalidateQueries({ queryKey })
  }
  const add = (text: string) => {
    setAdding(false)
    const tag = text.trim()
    if (tag !== '' && !data.includes(tag)) void change([...data, tag], () => addTags([experimentKey], [tag]))
  }
  const remove = (tag: string) =>
    void change(
      data.filter((it) => it !== tag),
      () => removeTags([experimentKey], [tag]),
    )
  return (
    <ul className={styles.tags} aria-label="Tags">
      {data.map((it) => (
        <li key={it} className={styles.tag}>
          <span title={it}>{it}</span>
          {mayWrite && (
            <button type="button" aria-label={`Remove the tag ${it}`} onClick={() => remove(it)}>
              <CloseIcon size={10} />
            </button>
          )}
        </li>
      ))}
      {mayWrite && (
        <li>
          {isAdding ? (
            <Input
              autoFocus
              aria-label="New tag"
              className={styles.newTag}
              onBlur={(event) => add(event.target.value)}
              onKeyDown={(event) => {
                if (event.key === 'Enter') add(event.currentTarget.value)
                if (event.key === 'Escape') setAdding(false)
              }}
            />
          ) : (
            <IconButton label="Add a tag" size="small" onClick={() => setAdding(true)}>
              <PlusIcon size={14} />
            </IconButton>
          )}
        </li>
      )}
    </ul>
  )
}
