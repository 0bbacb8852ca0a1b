import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type ListedModel, type ModelsAsked, readModels } from '../api/registry.ts'
import { Button } from '../kit/button.tsx'
import { Select } from '../kit/field.tsx'
import { PageLink } from '../kit/page-link.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { SearchField } from '../kit/search-field.tsx'
import { toAgo, toCount, toCountOf, toTime } from '../kit/text.ts'
import type { ModelsSearch } from './models-search.ts'
import { toProductionPath } from './paths.ts'
import styles from './registry.module.css'

const route = getRouteApi('/$workspace/-/models')

const pageSize = 100
/** Others register models, too. */
const againMs = 10_000

/** The registered models of a workspace. */
export function ModelsPage() {
  const { workspace } = route.useParams()
  const { search = '', order } = route.useSearch()
  const navigate = route.useNavigate()
  const asked: ModelsAsked = { workspaceName: workspace, search, order: order ?? 'lastUpdated' }
  const pages = useInfiniteQuery({
    queryKey: ['registry-models', workspace, asked],
    queryFn: ({ pageParam: page, signal }) => readModels({ ...asked, page, pageSize }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextPage ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval: againMs,
  })
  const { data, error } = pages
  const models = data?.pages.flatMap((it) => it.models) ?? []
  const total = data?.pages[0]?.total
  const change = (it: ModelsSearch) => void navigate({ search: (old) => ({ ...old, ...it }), replace: true })
  return (
    <div className={styles.page}>
      <title>{`Models · ${workspace} · svc`}</title>
      <header className={styles.header}>
        <h1>Models</h1>
        {total !== undefined && total > 0 && <span className={styles.faint}>{toCountOf(total, 'model')}</span>}
        <span className={styles.gap} />
        <Link to="/$workspace/-/webhooks" params={{ workspace }}>
          Webhooks
        </Link>
      </header>
      {error && !data ? (
        <ErrorPlace error={error} onRetry={() => pages.refetch()} />
      ) : total === undefined ? (
        <LoadingPlace />
      ) : total === 0 && search === '' ? (
        <EmptyPlace title="No model is registered">
          <p>
            A registered model has versions, each with the files of a run as they were then, and stages such as
            “staging” and “production”.
          </p>
          <p>
            Log a model in training code, <code>experiment.log_model("digits", "model.bin")</code>, then choose
            “Register a model” in the menu of the run.
          </p>
        </EmptyPlace>
      ) : (
        <>
          <div className={styles.tools}>
            <SearchField
              label="Search models"
              placeholder="Name, description or stage"
              className={styles.search}
              text={search}
              onChange={(text) => change({ search: text || undefined })}
            />
            <Select
              aria-label="Order"
              value={order ?? 'lastUpdated'}
              onChange={(event) => change({ order: event.target.value === 'name' ? 'name' : undefined })}
            >
              <option value="lastUpdated">Last change first</option>
              <option value="name">By name</option>
            </Select>
          </div>
          {total === 0 ? (
            <EmptyPlace title="No model matches">{`None has ${search} in its name, description or stages.`}</EmptyPlace>
          ) : (
            <ModelsTable models={models} workspace={workspace} />
          )}
          {pages.hasNextPage && (
            <p className={styles.tools}>
              <Button onClick={() => pages.fetchNextPage()} disabled={pages.isFetchingNextPage}>
                Show more
              </Button>
              <span className={styles.faint}>{`${toCount(models.length)} of ${toCount(total)}`}</span>
            </p>
          )}
        </>
      )}
    </div>
  )
}

function ModelsTable({ models, workspace }: { models: ListedModel[]; workspace: string }) {
  return (
    <div className={styles.frame}>
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">Model</th>
            <th scope="col">Latest</th>
            <th scope="col">Stages</th>
            <th scope="col" className={styles.number}>
              Versions
            </th>
            <th scope="col">Last change</th>
            <th scope="col">In production</th>
          </tr>
        </thead>
        <tbody>
          {models.map((it) => (
            <tr key={it.registryModelId}>
              <td>
                <div className={styles.name}>
                  <Link
                    to="/$workspace/-/models/$model"
                    params={{ workspace, model: it.modelName }}
                    title={it.modelName}
                  >
                    {it.modelName}
                  </Link>
                  {it.isPublic && <span className={styles.badge}>public</span>}
                </div>
                {it.description && (
                  <p className={styles.second} title={it.description}>
                    {it.description}
                  </p>
                )}
              </td>
              <td>
                {it.latestVersion === null ? (
                  <span className={styles.faint}>none</span>
                ) : (
                  <VersionLink workspace={workspace} model={it.modelName} version={it.latestVersion} />
                )}
              </td>
              <td>
                <div className={styles.stages}>
                  {it.stages.map(({ stage, version }) => (
                    <span key={stage} className={styles.stage} title={`${stage}: ${version}`}>
                      <span>{stage}</span>
                      <VersionLink workspace={workspace} model={it.modelName} version={version} />
                    </span>
                  ))}
                </div>
              </td>
              <td className={styles.number}>{toCount(it.numberOfVersions)}</td>
              <td className={styles.soft} title={toTime(it.lastUpdated)}>
                {toAgo(it.lastUpdated)}
              </td>
              <td>
                {it.monitored ? (
                  <PageLink path={toProductionPath(workspace, it.modelName)}>Monitored</PageLink>
                ) : (
                  <span className={styles.faint}>no</span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function VersionLink({ workspace, model, version }: { workspace: string; model: string; version: string }) {
  return (
    <Link to="/$workspace/-/models/$model/$version" params={{ workspace, model, version }}>
      {version}
    </Link>
  )
}
