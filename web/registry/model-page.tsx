import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import {
  historyKey,
  modelNotes,
  model as modelQuery,
  readHistory,
  saveModelNotes,
  versions as versionsQuery,
} from '../api/registry.ts'
import { Button, IconButton } from '../kit/button.tsx'
import { DotsIcon, PencilIcon, TrashIcon } from '../kit/icons.tsx'
import { Menu, MenuItem } from '../kit/menu.tsx'
import { Notes } from '../kit/notes/notes.tsx'
import { PageLink } from '../kit/page-link.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo, toCountOf, toTime } from '../kit/text.ts'
import { History } from './history.tsx'
import { DeleteModel, EditModel } from './model-dialogs.tsx'
import { toProductionPath } from './paths.ts'
import styles from './registry.module.css'
import { Versions } from './versions.tsx'

const route = getRouteApi('/$workspace/-/models/$model')

/** Others change models, too. */
const againMs = 10_000

/** A registered model: its versions with their stages, what people wrote about it, and who changed what. */
export function ModelPage() {
  const { workspace, model: modelName } = route.useParams()
  const name = { workspaceName: workspace, modelName }
  const { data, error, refetch } = useQuery({ ...modelQuery(name), refetchInterval: againMs })
  const versions = useQuery({ ...versionsQuery(name), refetchInterval: againMs })
  const [open, setOpen] = useState<'edit' | 'delete'>()
  const navigate = route.useNavigate()
  const close = () => setOpen(undefined)
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  return (
    <div className={styles.page}>
      <title>{`${modelName} · Models · ${workspace} · svc`}</title>
      <header className={styles.header}>
        <h1 title={modelName}>{modelName}</h1>
        {data.isPublic && <span className={styles.badge}>public</span>}
        {data.monitored && <PageLink path={toProductionPath(workspace, modelName)}>In production</PageLink>}
        <span className={styles.gap} />
        <Link to="/$workspace/-/models" params={{ workspace }}>
          All models
        </Link>
        {data.isWritable && (
          <Menu
            align="end"
            trigger={
              <IconButton label="Actions">
                <DotsIcon />
              </IconButton>
            }
          >
            <MenuItem icon={<PencilIcon />} onSelect={() => setOpen('edit')}>
              Rename or edit
            </MenuItem>
            <MenuItem icon={<TrashIcon />} danger onSelect={() => setOpen('delete')}>
              Delete
            </MenuItem>
          </Menu>
        )}
      </header>
      <div className={styles.columns}>
        <div className={styles.column}>
          {data.description && <p className={styles.text}>{data.description}</p>}
          <section className={styles.section} aria-labelledby="versions">
            <div className={styles.sectionHeader}>
              <h2 id="versions">Versions</h2>
              <span className={styles.faint}>{toCountOf(data.numberOfVersions, 'version')}</span>
            </div>
            {versions.error && !versions.data ? (
              <ErrorPlace error={versions.error} onRetry={() => versions.refetch()} />
            ) : versions.data === undefined ? (
              <LoadingPlace rows={3} />
            ) : versions.data.length === 0 ? (
              <EmptyPlace title="No version">
                Register a model of a run as its next version: in the menu of the run’s page.
              </EmptyPlace>
            ) : (
              <Versions versions={versions.data} {...name} isWritable={data.isWritable} />
            )}
          </section>
          <ModelNotes {...name} isWritable={data.isWritable} />
        </div>
        <div className={styles.column}>
          <section className={styles.section} aria-labelledby="about">
            <div className={styles.sectionHeader}>
              <h2 id="about">About</h2>
            </div>
            <dl className={styles.facts}>
              <div>
                <dt>Registered</dt>
                <dd title={toTime(data.createdAt)}>{`${toAgo(data.createdAt)} by ${data.userName}`}</dd>
              </div>
              <div>
                <dt>Last change</dt>
                <dd title={toTime(data.lastUpdated)}>{toAgo(data.lastUpdated)}</dd>
              </div>
              <div>
                <dt>Readers</dt>
                <dd>{data.isPublic ? 'everybody in the organization' : 'members of the workspace'}</dd>
              </div>
            </dl>
          </section>
          {data.isWritable && <ModelHistory {...name} />}
        </div>
      </div>
      {open === 'edit' && (
        <EditModel
          workspaceName={workspace}
          model={data}
          onRenamed={(model) => navigate({ params: (it) => ({ ...it, model }), replace: true })}
          onClose={close}
        />
      )}
      {open === 'delete' && (
        <DeleteModel
          workspaceName={workspace}
          model={data}
          onDeleted={() => navigate({ to: '/$workspace/-/models', params: { workspace } })}
          onClose={close}
        />
      )}
    </div>
  )
}

type OfModel = { workspaceName: string; modelName: string; isWritable: boolean }

function ModelNotes({ workspaceName, modelName, isWritable }: OfModel) {
  const name = { workspaceName, modelName }
  const { data, error, refetch } = useQuery(modelNotes(name))
  const client = useQueryClient()
  if (!isWritable && data === '') return null
  return (
    <section className={styles.section} aria-labelledby="notes">
      <div className={styles.sectionHeader}>
        <h2 id="notes">Notes</h2>
      </div>
      {error && data === undefined ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : data === undefined ? (
        <LoadingPlace rows={3} />
      ) : (
        <Notes
          text={data}
          readers="the model"
          isInline
          onSave={
            isWritable
              ? async (text) => {
                  await saveModelNotes(name, text)
                  await client.invalidateQueries(modelNotes(name))
                  await client.invalidateQueries({ queryKey: historyKey(name) })
                }
              : undefined
          }
        />
      )}
    </section>
  )
}

function ModelHistory(name: Omit<OfModel, 'isWritable'>) {
  const pages = useInfiniteQuery({
    queryKey: historyKey({ workspaceName: name.workspaceName, modelName: name.modelName }),
    queryFn: ({ pageParam, signal }) => readHistory(name, pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextPage ?? undefined,
    refetchInterval: againMs,
  })
  return (
    <section className={styles.section} aria-labelledby="history">
      <div className={styles.sectionHeader}>
        <h2 id="history">History</h2>
      </div>
      {pages.error && !pages.data ? (
        <ErrorPlace error={pages.error} onRetry={() => pages.refetch()} />
      ) : pages.data === undefined ? (
        <LoadingPlace rows={3} />
      ) : (
        <History changes={pages.data.pages.flatMap((it) => it.events)} withVersion />
      )}
      {pages.hasNextPage && (
        <Button size="small" onClick={() => pages.fetchNextPage()} disabled={pages.isFetchingNextPage}>
          Show older changes
        </Button>
      )}
    </section>
  )
}
