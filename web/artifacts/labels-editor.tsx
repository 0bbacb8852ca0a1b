import { useQueryClient } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { type ArtifactVersion, artifact, setLabels } from '../api/artifacts/artifacts.ts'
import { Button } from '../kit/button.tsx'
import { Input } from '../kit/field.tsx'
import { CloseIcon } from '../kit/icons.tsx'
import { toastError } from '../kit/toast.tsx'
import styles from './artifacts.module.css'

type Props = { workspace: string; name: string; version: ArtifactVersion }
type Kind = keyof typeof words

const words = { alias: 'alias', tags: 'tag' }
/** The service gives it to the newest closed version: nobody sets or removes it. */
const latest = 'Latest'

/** The aliases and tags of a version, to be added and removed. An alias that another version has moves here. */
export function LabelsEditor({ workspace, name, version }: Props) {
  const client = useQueryClient()
  const [adding, setAdding] = useState<Kind>()
  /** The button that has the focus again once something is added. */
  const addAgain = useRef<Kind>(undefined)
  const saving = useRef<Promise<unknown>>(Promise.resolve())
  const { queryKey } = artifact(workspace, name)
  const { artifactVersionId: id } = version

  /** Seen at once, and saved one after the other: the service takes whole lists. */
  function change(kind: Kind, work: (labels: string[]) => string[]) {
    client.setQueryData(queryKey, (old) => {
      if (!old) return old
      const versions = old.versions.map((it) => (it.artifactVersionId === id ? { ...it, [kind]: work(it[kind]) } : it))
      return { ...old, versions }
    })
    const of = client.getQueryData(queryKey)?.versions.find((it) => it.artifactVersionId === id)
    if (!of) return
    const labels = kind === 'alias' ? { alias: of.alias.filter((it) => it !== latest) } : { versionTags: of.tags }
    const mine = saving.current.then(() => setLabels(id, labels)).catch(toastError)
    saving.current = mine
    // The last one to be saved reads what there is now.
    void mine.then(() => (saving.current === mine ? client.invalidateQueries({ queryKey }) : undefined))
  }
  function add(kind: Kind, text: string) {
    setAdding(undefined)
    const label = text.trim()
    if (label !== '') change(kind, (labels) => (labels.includes(label) ? labels : [...labels, label]))
  }
  return (
    <ul className={styles.labels} aria-label="Aliases and tags">
      {(['alias', 'tags'] as const).map((kind) => [
        ...version[kind].map((it) => (
          <li
            key={`${kind} ${it}`}
            className={kind === 'alias' ? styles.alias : styles.badge}
            title={`${words[kind]} ${it}`}
          >
            {it}
            {!(kind === 'alias' && it === latest) && (
              <button
                type="button"
                className={styles.remove}
                aria-label={`Remove the ${words[kind]} ${it}`}
                onClick={() => change(kind, (labels) => labels.filter((other) => other !== it))}
              >
                <CloseIcon size={10} />
              </button>
            )}
          </li>
        )),
        <li key={kind}>
          {adding === kind ? (
            <Input
              autoFocus
              aria-label={`New ${words[kind]}`}
              className={styles.newLabel}
              onBlur={(event) => add(kind, event.target.value)}
              onKeyDown={(event) => {
                if (event.key !== 'Enter' && event.key !== 'Escape') return
                // The key would press the button that has the focus next.
                event.preventDefault()
                addAgain.current = kind
                add(kind, event.key === 'Enter' ? event.currentTarget.value : '')
              }}
            />
          ) : (
            <Button
              size="small"
              ref={(button) => {
                if (addAgain.current !== kind || !button) return
                addAgain.current = undefined
                button.focus()
              }}
              onClick={() => setAdding(kind)}
            >
              {`Add ${kind === 'alias' ? 'an alias' : 'a tag'}`}
            </Button>
          )}
        </li>,
      ])}
    </ul>
  )
}
