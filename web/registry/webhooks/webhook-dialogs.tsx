import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useRef, useState } from 'react'
import { session } from '../../api/accounts.ts'
import { readModels } from '../../api/registry.ts'
import {
  deleteWebhook,
  makeSigningSecret,
  refreshWebhooks,
  saveWebhook,
  secretHeader,
  secrets,
  triggers,
  type Webhook,
} from '../../api/webhooks.ts'
import { Button, IconButton } from '../../kit/button.tsx'
import { Dialog, FormDialog } from '../../kit/dialog.tsx'
import { Checkbox, Input, TextField } from '../../kit/field.tsx'
import { PlusIcon, TrashIcon } from '../../kit/icons.tsx'
import { Snippet } from '../../kit/snippet.tsx'
import { toTime } from '../../kit/text.ts'
import styles from '../registry.module.css'
import { toHost, toWords } from './words.ts'

type Header = { id: number; name: string; value: string }

/** Makes a webhook, or changes one: its model and address say which it is, so they stay. */
export function EditWebhook({
  workspace,
  webhook,
  onClose,
}: {
  workspace: string
  webhook?: Webhook
  onClose(): void
}) {
  const [url, setUrl] = useState(webhook?.url ?? '')
  const [name, setName] = useState(webhook?.name ?? '')
  const [modelName, setModelName] = useState(webhook?.modelName ?? '')
  const [told, setTold] = useState<string[]>(webhook?.triggers ?? ['MODEL_VERSION_STAGE_CHANGED'])
  const [keepsHeaders, setKeepsHeaders] = useState(webhook !== undefined)
  const [secretName, setSecretName] = useState('')
  const [headers, setHeaders] = useState<Header[]>([])
  const [lastId, setLastId] = useState(0)
  const client = useQueryClient()
  const modelsId = useId()
  const secretsId = useId()
  const reader = useQuery(session).data
  const models = useQuery({
    queryKey: ['registry-models', workspace, 'names'],
    queryFn: ({ signal }) => readModels({ workspaceName: workspace, order: 'name', pageSize: 1_000 }, signal),
    enabled: webhook === undefined,
  }).data
  const secretNames = useQuery({ ...secrets(reader?.organizationId ?? ''), enabled: reader?.isAdmin === true }).data
  const set = (id: number, change: Partial<Header>) =>
    setHeaders(headers.map((it) => (it.id === id ? { ...it, ...change } : it)))
  const old = Object.entries(webhook?.header ?? {}).map(([it, value]) =>
    it === secretHeader ? `Authorization from the secret ${value}` : it,
  )
  async function save() {
    const given = Object.fromEntries(headers.filter((it) => it.name.trim()).map((it) => [it.name.trim(), it.value]))
    const header = { ...given, ...(secretName.trim() && { [secretHeader]: secretName.trim() }) }
    await saveWebhook(workspace, {
      modelName: modelName.trim() || null,
      url: url.trim(),
      name: name.trim(),
      triggers: told,
      ...(!keepsHeaders && { header }),
    })
    await refreshWebhooks(client, workspace)
  }
  return (
    <FormDialog
      title={webhook ? `Edit the webhook to ${toHost(webhook.url)}` : 'Add a webhook'}
      action={webhook ? 'Save' : 'Add webhook'}
      canSubmit={url.trim() !== '' && told.length > 0}
      width={560}
      onClose={onClose}
      onSubmit={save}
    >
      <TextField
        label="Address"
        type="url"
        placeholder="https://deploy.example.com/hook"
        disabled={webhook !== undefined}
        hint={webhook && 'Another address is another webhook: add it, and delete this one.'}
        value={url}
        onChange={(event) => setUrl(event.target.value)}
      />
      <TextField
        label="Name"
        hint="How it is called in the list."
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <TextField
        label="Model"
        placeholder="every model of the workspace"
        list={modelsId}
        disabled={webhook !== undefined}
        value={modelName}
        onChange={(event) => setModelName(event.target.value)}
      />
      <datalist id={modelsId}>
        {models?.models.map((it) => (
          <option key={it.registryModelId} value={it.modelName} />
        ))}
      </datalist>
      <fieldset className={styles.group}>
        <legend>Told of</legend>
        {triggers.map((it) => (
          <Checkbox
            key={it}
            checked={told.includes(it)}
            onChange={(event) =>
              setTold(event.target.checked ? [...told, it] : told.filter((trigger) => trigger !== it))
            }
          >
            {toWords(it)}
          </Checkbox>
        ))}
      </fieldset>
      <fieldset className={styles.group}>
        <legend>Headers</legend>
        {webhook && (
          <Checkbox checked={keepsHeaders} onChange={(event) => setKeepsHeaders(event.target.checked)}>
            {old.length === 0 ? 'Keep none' : `Keep ${old.join(', ')}`}
          </Checkbox>
        )}
        {!keepsHeaders && (
          <>
            <TextField
              label="Authorization from a secret"
              placeholder="name of a secret of the organization"
              list={secretsId}
              hint="The value stays in the service; admins set it below the deliveries."
              value={secretName}
              onChange={(event) => setSecretName(event.target.value)}
            />
            <datalist id={secretsId}>
              {secretNames?.map((it) => (
                <option key={it.secretName} value={it.secretName} />
              ))}
            </datalist>
            {headers.map((it) => (
              <div key={it.id} className={styles.pair}>
                <Input
                  aria-label="Name of the header"
                  placeholder="X-Team"
                  value={it.name}
                  onChange={(event) => set(it.id, { name: event.target.value })}
                />
                <Input
                  aria-label="Value of the header"
                  type="password"
                  autoComplete="off"
                  placeholder="value"
                  value={it.value}
                  onChange={(event) => set(it.id, { value: event.target.value })}
                />
                <IconButton
                  label="Leave this header out"
                  onClick={() => setHeaders(headers.filter((other) => other.id !== it.id))}
                >
                  <TrashIcon size={14} />
                </IconButton>
              </div>
            ))}
            <div className={styles.actions}>
              <Button
                size="small"
                onClick={() => {
                  setHeaders([...headers, { id: lastId + 1, name: '', value: '' }])
                  setLastId(lastId + 1)
                }}
              >
                <PlusIcon size={14} /> Another header
              </Button>
            </div>
          </>
        )}
      </fieldset>
    </FormDialog>
  )
}

type Referenced = { reference: { workspaceName: string; modelName: string | null; url: string }; onClose(): void }

export function DeleteWebhook({ reference, onClose }: Referenced) {
  const client = useQueryClient()
  return (
    <FormDialog
      title={`Delete the webhook to ${toHost(reference.url)}?`}
      action="Delete webhook"
      danger
      onClose={onClose}
      onSubmit={async () => {
        await deleteWebhook(reference)
        await refreshWebhooks(client, reference.workspaceName)
      }}
    >
      <p>
        {reference.url} is told nothing more{reference.modelName === null ? '' : ` of ${reference.modelName}`}, and what
        waits to be sent is cancelled. The log of what was sent stays.
      </p>
    </FormDialog>
  )
}

/** Shown once: the service tells it to nobody again. */
export function SigningSecret({ reference, onClose }: Referenced) {
  const [made, setMade] = useState<{ signingSecret: string; oldSecretSignsUntil: number }>()
  const isMade = useRef(false)
  if (made) {
    return (
      <Dialog title="The new signing secret" onClose={onClose} width={520}>
        <div className={styles.once} role="status">
          <p>Copy it now: it is not shown again.</p>
          <Snippet code={made.signingSecret} label="Copy the secret" />
          <p>Deliveries are signed with the old one, too, until {toTime(made.oldSecretSignsUntil)}.</p>
        </div>
      </Dialog>
    )
  }
  return (
    <FormDialog
      title={`A new signing secret for ${toHost(reference.url)}?`}
      action="Make a secret"
      // Once it is made, the dialog stays and shows it.
      onClose={() => !isMade.current && onClose()}
      onSubmit={async () => {
        setMade(await makeSigningSecret(reference))
        isMade.current = true
      }}
    >
      <p>
        The receiver checks with it that a delivery is from here, by Standard Webhooks. For 24 hours deliveries are
        signed with the old secret, too.
      </p>
    </FormDialog>
  )
}
