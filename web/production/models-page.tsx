import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type ListedModel, readOverview } from '../api/monitoring.ts'
import { Button } from '../kit/button.tsx'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo, toCount, toCountOf, toTime } from '../kit/text.ts'
import { EmptyProduction } from './empty.tsx'
import styles from './production.module.css'
import { Legend, Strip, Volume } from './strip.tsx'
import { stripDays, useMonthOfDrift } from './use-month-of-drift.ts'
import { toMeasure } from './words.ts'

const route = getRouteApi('/$workspace/-/production')

const againMs = 15_000

/** The models of a workspace that report from production, with what is up with each. */
export function ProductionPage() {
  const { workspace } = route.useParams()
  const pages = useInfiniteQuery({
    queryKey: ['monitoring-models', workspace],
    queryFn: ({ pageParam, signal }) => readOverview(workspace, pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextPage ?? undefined,
    refetchInterval: againMs,
    placeholderData: keepPreviousData,
  })
  const all = pages.data?.pages.flatMap((it) => it.models)
  const models = all?.filter((it) => !it.isDataset) ?? []
  const references = all?.filter((it) => it.isDataset) ?? []
  return (
    <div className={styles.page}>
      <title>{`Production · ${workspace} · svc`}</title>
      <header className={styles.header}>
        <h1>Production</h1>
        {models.length > 0 && <span className={styles.faint}>{toCountOf(models.length, 'model')}</span>}
      </header>
      {pages.error && !all ? (
        <ErrorPlace error={pages.error} onRetry={() => pages.refetch()} />
      ) : all === undefined ? (
        <LoadingPlace />
      ) : models.length === 0 ? (
        <EmptyProduction workspaceName={workspace} modelName="fraud" title="No model reports yet" />
      ) : (
        <div className={styles.frame}>
          <table className={styles.table}>
            <thead>
              <tr>
                <th scope="col">Model</th>
                <th scope="col">Last event</th>
                <th scope="col">{`Events of ${stripDays} days`}</th>
                <th scope="col">{`Drift of ${stripDays} days`}</th>
                <th scope="col">Alerts</th>
                <th scope="col">Registry</th>
              </tr>
            </thead>
            <tbody>
              {models.map((it) => (
                <ModelRow key={it.modelName} workspace={workspace} model={it} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {models.some((it) => it.datasetName !== null) && <Legend of="model" />}
      {pages.hasNextPage && (
        <p className={styles.tools}>
          <Button onClick={() => pages.fetchNextPage()} disabled={pages.isFetchingNextPage}>
            Show more
          </Button>
        </p>
      )}
      {references.length > 0 && (
        <p className={styles.faint}>
          {`${references.length === 1 ? 'Reference' : 'References'}: ${references
            .map((it) => `${it.modelName} (${toCountOf(it.trainingEvents, 'event')})`)
            .join(', ')}`}
        </p>
      )}
    </div>
  )
}

function ModelRow({ workspace, model }: { workspace: string; model: ListedModel }) {
  const { modelName, lastEventAt, volume, firing, rules } = model
  const month = useMonthOfDrift(workspace, model)
  return (
    <tr>
      <td className={styles.name}>
        <Link to="/$workspace/-/production/$model" params={{ workspace, model: modelName }} title={modelName}>
          {modelName}
        </Link>
      </td>
      <td className={styles.soft} title={lastEventAt === null ? undefined : toTime(lastEventAt)}>
        {lastEventAt === null ? 'labels only' : toAgo(lastEventAt)}
      </td>
      <td>
        <div className={styles.volume}>
          <Volume counts={volume} label={`Events by day, ${toCount(Math.max(0, ...volume))} at most`} />
          <span className={styles.soft}>{toCount(volume.reduce((sum, it) => sum + it, 0))}</span>
        </div>
      </td>
      <td className={styles.wide}>
        {model.datasetName === null ? (
          <span className={styles.faint}>no reference</span>
        ) : (
          month && (
            <div className={styles.with}>
              <Strip levels={month.levels} label={month.label} />
              <span className={styles.verdict} data-drifted={month.drifted}>
                {month.verdict}
              </span>
            </div>
          )
        )}
      </td>
      <td>
        {firing.length > 0 ? (
          <Link
            to="/$workspace/-/production/$model"
            params={{ workspace, model: modelName }}
            search={{ tab: 'alerts' }}
            className={styles.firing}
            title={firing.map((it) => `${it.name}: ${toMeasure(it.measure)}`).join('\n')}
          >
            {`${firing.length} firing`}
          </Link>
        ) : (
          <span className={styles.faint}>{rules === 0 ? 'no rule' : 'none'}</span>
        )}
      </td>
      <td>
        {model.registered ? (
          <PageLink path={`${toPagePath(workspace)}/-/models/${toPagePath(modelName)}`}>Registered</PageLink>
        ) : (
          <span className={styles.faint}>no</span>
        )}
      </td>
    </tr>
  )
}
