import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import {
  allowedStatuses,
  fileUrl,
  model as modelQuery,
  refreshModel,
  setStatus,
  updateVersion,
  type VersionDetails,
  versionHistory,
  versionMetadata,
  version as versionQuery,
  zipUrl,
} from '../api/registry.ts'
import { metadata } from '../api/run.ts'
import { Button, IconButton } from '../kit/button.tsx'
import { Select } from '../kit/field.tsx'
import { DotsIcon, TrashIcon } from '../kit/icons.tsx'
import { Menu, MenuItem } from '../kit/menu.tsx'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { CopyButton } from '../kit/snippet.tsx'
import { toAgo, toBytes, toCountOf, toTime } from '../kit/text.ts'
import { toastError } from '../kit/toast.tsx'
import { History } from './history.tsx'
import { DeleteVersion } from './model-dialogs.tsx'
import { toProductionPath } from './paths.ts'
import styles from './registry.module.css'
import { Stages } from './stages.tsx'
import { Deliveries } from './webhooks/deliveries.tsx'

const route = getRouteApi('/$workspace/-/models/$model/$version')

const againMs = 10_000

/** One version of a registered model: its stages, files, the run that made it, and what webhooks were told of it. */
export function VersionPage() {
  const { workspace, model: modelName, version: number } = route.useParams()
  const name = { workspaceName: workspace, modelName }
  const model = useQuery(modelQuery(name)).data
  const { data, error, refetch } = useQuery({ ...versionQuery(name, number), refetchInterval: againMs })
  const navigate = route.useNavigate()
  const [isDeleting, setDeleting] = useState(false)
  const isWritable = model?.isWritable ?? false
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  return (
    <div className={styles.page}>
      <title>{`${modelName} ${number} · ${workspace} · svc`}</title>
      <header className={styles.header}>
        <h1 title={`${modelName} ${number}`}>
          <Link to="/$workspace/-/models/$model" params={{ workspace, model: modelName }}>
            {modelName}
          </Link>{' '}
          {number}
        </h1>
        <Stages {...name} version={data} isWritable={isWritable} />
        <span className={styles.gap} />
        <PageLink
          path={`${toPagePath(workspace)}/-/lineage?${new URLSearchParams({ model: JSON.stringify(data.registryModelItemId) })}`}
        >
          Lineage
        </PageLink>
        {model?.monitored && <PageLink path={toProductionPath(workspace, modelName)}>In production</PageLink>}
        {isWritable && (
          <Menu
            align="end"
            trigger={
              <IconButton label="Actions">
                <DotsIcon />
              </IconButton>
            }
          >
            <MenuItem icon={<TrashIcon />} danger onSelect={() => setDeleting(true)}>
              Delete {number}
            </MenuItem>
          </Menu>
        )}
      </header>
      <div className={styles.columns}>
        <div className={styles.column}>
          <Comment {...name} version={data} isWritable={isWritable} />
          <Files {...name} version={data} />
          <Metadata versionId={data.registryModelItemId} />
          {isWritable && (
            <section className={styles.section} aria-labelledby="deliveries">
              <div className={styles.sectionHeader}>
                <h2 id="deliveries">Webhooks</h2>
                <Link to="/$workspace/-/webhooks" params={{ workspace }}>
                  All webhooks
                </Link>
              </div>
              <Deliveries
                asked={{ ...name, version: number }}
                empty="Webhooks are told of changes of a version, such as a new stage; what was sent stands here for 30 days."
              />
            </section>
          )}
        </div>
        <div className={styles.column}>
          <About {...name} version={data} isWritable={isWritable} />
          {isWritable && <VersionHistory {...name} versionId={data.registryModelItemId} />}
        </div>
      </div>
      {isDeleting && (
        <DeleteVersion
          {...name}
          version={data}
          onDeleted={() => navigate({ to: '/$workspace/-/models/$model', params: { workspace, model: modelName } })}
          onClose={() => setDeleting(false)}
        />
      )}
    </div>
  )
}

type Name = { workspaceName: string; modelName: string }
type OfVersion = Name & { version: VersionDetails; isWritable: boolean }

function Comment({ workspaceName, modelName, version, isWritable }: OfVersion) {
  const [draft, setDraft] = useState<string>()
  const client = useQueryClient()
  async function save(comment: string) {
    await updateVersion(version.registryModelItemId, { comment })
    await refreshModel(client, { workspaceName, modelName })
    setDraft(undefined)
  }
  if (draft === undefined) {
    return (
      <div className={styles.section}>
        {version.comment && <p className={styles.text}>{version.comment}</p>}
        {isWritable && (
          <div className={styles.actions}>
            <Button size="small" onClick={() => setDraft(version.comment)}>
              {version.comment ? 'Edit the comment' : 'Write a comment'}
            </Button>
          </div>
        )}
      </div>
    )
  }
  return (
    <div className={styles.section}>
      <textarea
        aria-label="Comment"
        className={styles.comment}
        rows={3}
        // biome-ignore lint/a11y/noAutofocus: the reader has just asked to write
        autoFocus
        value={draft}
        onChange={(event) => setDraft(event.target.value)}
      />
      <div className={styles.actions}>
        <Button look="primary" size="small" onClick={() => save(draft).catch(toastError)}>
          Save
        </Button>
        <Button look="quiet" size="small" onClick={() => setDraft(undefined)}>
          Cancel
        </Button>
      </div>
    </div>
  )
}

function Files({ workspaceName, modelName, version }: Omit<OfVersion, 'isWritable'>) {
  const { assets, registryModelItemId: id } = version
  const stored = assets.filter((it) => !it.remote)
  const bytes = stored.reduce((sum, it) => sum + it.fileSize, 0)
  return (
    <section className={styles.section} aria-labelledby="files">
      <div className={styles.sectionHeader}>
        <h2 id="files">Files</h2>
        <span className={styles.faint}>{`${toCountOf(assets.length, 'file')}, ${toBytes(bytes)}`}</span>
        <span className={styles.gap} />
        {stored.length > 0 && (
          <a href={zipUrl({ workspaceName, modelName }, version.version)} download>
            Download all
          </a>
        )}
      </div>
      <div className={styles.frame}>
        <table className={styles.table}>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col" className={styles.number}>
                Size
              </th>
              <th scope="col" className={styles.end}>
                <span className="visually-hidden">Download</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {assets.map((it) => (
              <tr key={it.assetId}>
                <td title={it.fileName}>{it.fileName}</td>
                <td className={styles.number}>{it.remote ? 'remote' : toBytes(it.fileSize)}</td>
                <td className={styles.end}>
                  {!it.remote ? (
                    <a
                      href={fileUrl(id, it.assetId)}
                      download={it.fileName.split('/').at(-1)}
                      aria-label={`Download ${it.fileName}`}
                    >
                      Download
                    </a>
                  ) : /^https?:/.test(it.link) ? (
                    <a href={it.link} target="_blank" rel="noreferrer" aria-label={`Open ${it.fileName}`}>
                      Open
                    </a>
                  ) : (
                    <CopyButton text={it.link} label={`Copy the address of ${it.fileName}`} />
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}

/** Nothing where there is none: only programs write it. */
function Metadata({ versionId }: { versionId: string }) {
  const { data = [] } = useQuery(versionMetadata(versionId))
  if (data.length === 0) return null
  return (
    <section className={styles.section} aria-labelledby="metadata">
      <div className={styles.sectionHeader}>
        <h2 id="metadata">Metadata</h2>
      </div>
      <dl className={styles.facts}>
        {data.map(({ key, value }) => (
          <div key={key}>
            <dt>{key}</dt>
            <dd>{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}

function About({ workspaceName, modelName, version, isWritable }: OfVersion) {
  const { experimentKey, modelName: sourceName } = version.experimentModel
  const run = useQuery(metadata(experimentKey))
  return (
    <section className={styles.section} aria-labelledby="about">
      <div className={styles.sectionHeader}>
        <h2 id="about">About</h2>
      </div>
      <dl className={styles.facts}>
        <div>
          <dt>Run</dt>
          <dd>
            {run.data ? (
              <PageLink path={toPagePath(run.data.workspaceName, run.data.projectName, experimentKey)}>
                {run.data.experimentName}
              </PageLink>
            ) : run.error ? (
              <span className={styles.faint} title={experimentKey}>
                deleted, or not for you to see
              </span>
            ) : null}
          </dd>
        </div>
        {run.data && (
          <div>
            <dt>Project</dt>
            <dd>
              <PageLink path={toPagePath(run.data.workspaceName, run.data.projectName)}>
                {run.data.projectName}
              </PageLink>
            </dd>
          </div>
        )}
        <div>
          <dt>Model of it</dt>
          <dd>{sourceName}</dd>
        </div>
        <div>
          <dt>Status</dt>
          <dd>
            {isWritable ? (
              <Status workspaceName={workspaceName} modelName={modelName} version={version} />
            ) : (
              version.status
            )}
          </dd>
        </div>
        <div>
          <dt>Registered</dt>
          <dd title={toTime(version.createdAt)}>{`${toAgo(version.createdAt)} by ${version.userName}`}</dd>
        </div>
        <div>
          <dt>Last change</dt>
          <dd title={toTime(version.updatedAt)}>{toAgo(version.updatedAt)}</dd>
        </div>
      </dl>
    </section>
  )
}

function Status({ workspaceName, modelName, version }: Omit<OfVersion, 'isWritable'>) {
  const { data = [version.status] } = useQuery(allowedStatuses(workspaceName))
  const client = useQueryClient()
  async function change(status: string) {
    await setStatus(version.registryModelItemId, status)
    await refreshModel(client, { workspaceName, modelName })
  }
  return (
    <Select
      aria-label="Status"
      value={version.status}
      onChange={(event) => change(event.target.value).catch(toastError)}
    >
      {[...new Set([...data, version.status])].map((it) => (
        <option key={it}>{it}</option>
      ))}
    </Select>
  )
}

function VersionHistory({ workspaceName, modelName, versionId }: Name & { versionId: string }) {
  const { data, error, refetch } = useQuery({
    ...versionHistory({ workspaceName, modelName }, versionId),
    refetchInterval: againMs,
  })
  return (
    <section className={styles.section} aria-labelledby="history">
      <div className={styles.sectionHeader}>
        <h2 id="history">History</h2>
      </div>
      {error && !data ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : data === undefined ? (
        <LoadingPlace rows={3} />
      ) : (
        <History changes={data} />
      )}
    </section>
  )
}
