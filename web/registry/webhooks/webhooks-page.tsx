import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { session } from '../../api/accounts.ts'
import {
  enableWebhook,
  refreshWebhooks,
  secretHeader,
  testWebhook,
  type Webhook,
  webhooks as webhooksQuery,
} from '../../api/webhooks.ts'
import { Button, IconButton } from '../../kit/button.tsx'
import { Select } from '../../kit/field.tsx'
import { DotsIcon, PencilIcon, PlusIcon, TrashIcon } from '../../kit/icons.tsx'
import { Menu, MenuItem, MenuLine } from '../../kit/menu.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { toast, toastError } from '../../kit/toast.tsx'
import styles from '../registry.module.css'
import { Deliveries } from './deliveries.tsx'
import { Secrets } from './secrets.tsx'
import { DeleteWebhook, EditWebhook, SigningSecret } from './webhook-dialogs.tsx'
import { deliveryStates, type WebhooksSearch } from './webhooks-search.ts'
import { toHost, toWords } from './words.ts'

const route = getRouteApi('/$workspace/-/webhooks')

/** Who is told of changes in the registry of a workspace, what was sent, and the secrets that it is sent with. */
export function WebhooksPage() {
  const { workspace } = route.useParams()
  const { url, state } = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error, refetch } = useQuery({ ...webhooksQuery(workspace), refetchInterval: 10_000 })
  const reader = useQuery(session).data
  const [isAdding, setAdding] = useState(false)
  const change = (it: WebhooksSearch) => void navigate({ search: (old) => ({ ...old, ...it }), replace: true })
  const add = (
    <Button look="primary" onClick={() => setAdding(true)}>
      <PlusIcon size={14} /> Add a webhook
    </Button>
  )
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  return (
    <div className={styles.page}>
      <title>{`Webhooks · ${workspace} · svc`}</title>
      <header className={styles.header}>
        <h1>Webhooks</h1>
        <span className={styles.gap} />
        <Link to="/$workspace/-/models" params={{ workspace }}>
          Models
        </Link>
        {data && data.length > 0 && add}
      </header>
      {data === undefined ? (
        <LoadingPlace />
      ) : (
        <div className={styles.column}>
          {data.length === 0 ? (
            <EmptyPlace title="No webhook" action={add}>
              A webhook tells another service of changes in the registry: a deployment starts when a version gets the
              stage “production”. Each delivery is signed and repeated until it is taken.
            </EmptyPlace>
          ) : (
            <WebhookTable webhooks={data} workspace={workspace} />
          )}
          {data.length > 0 && (
            <section className={styles.section} aria-labelledby="deliveries">
              <div className={styles.sectionHeader}>
                <h2 id="deliveries">Deliveries</h2>
                <span className={styles.gap} />
                <Select
                  aria-label="Webhook"
                  value={url ?? ''}
                  onChange={(event) => change({ url: event.target.value || undefined })}
                >
                  <option value="">To all webhooks</option>
                  {[...new Set(data.map((it) => it.url))].map((it) => (
                    <option key={it} value={it}>
                      {it}
                    </option>
                  ))}
                </Select>
                <Select
                  aria-label="State"
                  value={state ?? ''}
                  onChange={(event) => change({ state: (event.target.value || undefined) as WebhooksSearch['state'] })}
                >
                  <option value="">In any state</option>
                  {deliveryStates.map((it) => (
                    <option key={it}>{it}</option>
                  ))}
                </Select>
              </div>
              <Deliveries
                asked={{ workspaceName: workspace, url, state }}
                empty="A test from the menu of a webhook is the quickest way to see one. The log goes back 30 days."
              />
            </section>
          )}
          {reader?.isAdmin && <Secrets organizationId={reader.organizationId} />}
        </div>
      )}
      {isAdding && <EditWebhook workspace={workspace} onClose={() => setAdding(false)} />}
    </div>
  )
}

function WebhookTable({ webhooks, workspace }: { webhooks: Webhook[]; workspace: string }) {
  return (
    <div className={styles.frame}>
      <table className={styles.table} aria-label="Webhooks">
        <thead>
          <tr>
            <th scope="col">Address</th>
            <th scope="col">Of</th>
            <th scope="col">Told of</th>
            <th scope="col">Headers</th>
            <th scope="col" className={styles.end}>
              <span className="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {webhooks.map((it) => (
            <Row key={`${it.modelName} ${it.url}`} webhook={it} workspace={workspace} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Row({ webhook, workspace }: { webhook: Webhook; workspace: string }) {
  const [open, setOpen] = useState<'edit' | 'delete' | 'secret'>()
  const client = useQueryClient()
  const { url, modelName, name, header, enabled, disabledReason } = webhook
  const reference = { workspaceName: workspace, modelName, url }
  const close = () => setOpen(undefined)
  async function act(call: () => Promise<unknown>, done: string) {
    await call()
    await refreshWebhooks(client, workspace)
    toast(done)
  }
  const headers = Object.entries(header).map(([it, value]) => (it === secretHeader ? `Authorization: ${value}` : it))
  return (
    <tr>
      <td>
        <p title={url}>{name || toHost(url)}</p>
        <p className={styles.second} title={url}>
          {url}
        </p>
        {!enabled && (
          <p className={styles.warning} role="status">
            Disabled: {disabledReason}.{' '}
            <Button size="small" onClick={() => act(() => enableWebhook(reference), 'Enabled').catch(toastError)}>
              Enable
            </Button>
          </p>
        )}
      </td>
      <td>
        {modelName === null ? (
          <span className={styles.soft}>every model</span>
        ) : (
          <Link to="/$workspace/-/models/$model" params={{ workspace, model: modelName }}>
            {modelName}
          </Link>
        )}
      </td>
      <td>
        <div className={styles.stages}>
          {webhook.triggers.map((it) => (
            <span key={it} className={styles.stage} title={it}>
              {toWords(it)}
            </span>
          ))}
        </div>
      </td>
      <td className={styles.soft} title={headers.join(', ')}>
        {headers.join(', ') || 'none'}
      </td>
      <td className={styles.end}>
        <div className={styles.actions}>
          <Button
            size="small"
            disabled={!enabled}
            aria-label={`Send a test to ${url}`}
            onClick={() => act(() => testWebhook(reference), `Sent a test to ${toHost(url)}`).catch(toastError)}
          >
            Test
          </Button>
          <Menu
            align="end"
            trigger={
              <IconButton label={`Actions for ${url}`} size="small">
                <DotsIcon />
              </IconButton>
            }
          >
            <MenuItem icon={<PencilIcon />} onSelect={() => setOpen('edit')}>
              Edit
            </MenuItem>
            <MenuItem onSelect={() => setOpen('secret')}>New signing secret</MenuItem>
            <MenuLine />
            <MenuItem icon={<TrashIcon />} danger onSelect={() => setOpen('delete')}>
              Delete
            </MenuItem>
          </Menu>
        </div>
        {open === 'edit' && <EditWebhook workspace={workspace} webhook={webhook} onClose={close} />}
        {open === 'secret' && <SigningSecret reference={reference} onClose={close} />}
        {open === 'delete' && <DeleteWebhook reference={reference} onClose={close} />}
      </td>
    </tr>
  )
}
