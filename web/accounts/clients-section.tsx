import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { createKey, ownKeys, type Session } from '../api/accounts.ts'
import { baseUrl } from '../api/http.ts'
import { Button } from '../kit/button.tsx'
import { Snippet } from '../kit/snippet.tsx'
import { toastError } from '../kit/toast.tsx'
import styles from './settings.module.css'
import { toSnippets } from './snippets.ts'

/** Lines to paste for each client, with the reader's own address and workspace. */
export function Clients({ reader }: { reader: Session }) {
  const [key, setKey] = useState<string>()
  const [client, setClient] = useState(0)
  const queries = useQueryClient()
  const url = (reader.publicUrl ?? baseUrl.href).replace(/\/$/, '')
  const workspace = reader.defaultWorkspaceName ?? reader.workspaceNames[0] ?? 'default'
  const snippets = toSnippets({ url, workspace, key: key ?? 'svc_...' })
  const shown = snippets[client] as (typeof snippets)[number]
  const make = () =>
    createKey({ name: 'made with a snippet', scope: 'write' })
      .then(({ apiKey }) => setKey(apiKey))
      .then(() => queries.invalidateQueries(ownKeys))
      .catch(toastError)
  return (
    <>
      <p className={styles.intro}>
        {key
          ? 'The lines hold a new key. It is shown only here and only now.'
          : 'Put one of your keys in the place of svc_..., or make a new one that is filled in here.'}
      </p>
      <div className={styles.tools}>
        {reader.kind === 'user' && !key && <Button onClick={make}>Make a key and fill it in</Button>}
      </div>
      <fieldset className={styles.choices} aria-label="Client">
        {snippets.map(({ name }, at) => (
          <label key={name} className={styles.choice}>
            <input type="radio" name="client" checked={at === client} onChange={() => setClient(at)} />
            {name}
          </label>
        ))}
      </fieldset>
      <p className={styles.soft}>{shown.about}</p>
      <Snippet code={shown.code} />
    </>
  )
}
