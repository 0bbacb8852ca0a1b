import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { monitored, type Scope, segments as segmentsQuery, versionsOf } from '../api/monitoring.ts'
import { versions as registryVersions } from '../api/registry.ts'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo, toCountOf, toTime } from '../kit/text.ts'
import { AlertsTab } from './alerts/alerts-tab.tsx'
import { CompareTab } from './compare-tab.tsx'
import { DriftTab } from './drift-tab.tsx'
import { EmptyProduction } from './empty.tsx'
import { EventsTab } from './events-tab.tsx'
import { LabelsTab } from './labels-tab.tsx'
import styles from './production.module.css'
import { type ProductionSearch, tabs } from './production-search.ts'
import { ScopeTools } from './scope-tools.tsx'
import { dayMs, toWindows } from './words.ts'

const route = getRouteApi('/$workspace/-/production/$model')

const againMs = 15_000

/** A model in production: its drift, versions and segments, labels, alerts and events. */
export function ProductionModelPage() {
  const { workspace, model: modelName } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const name = { workspaceName: workspace, modelName }
  const { data: model, error, refetch } = useQuery({ ...monitored(name), refetchInterval: againMs })
  const versions = useQuery(versionsOf(name)).data ?? []
  const segments = useQuery(segmentsQuery(name)).data?.segments ?? []
  const [ruleOn, setRuleOn] = useState<{ feature?: string; part?: 'prediction' }>()
  const { tab = 'drift', windows: count = 90, interval = dayMs, version, segment } = search
  const change = (it: ProductionSearch) => void navigate({ search: (old) => ({ ...old, ...it }), replace: true })
  if (error && model === undefined) return <ErrorPlace error={error} onRetry={refetch} />
  if (model === undefined) return <LoadingPlace />
  const scope: Scope = { ...name, modelVersion: version, segment }
  const hasReference = model?.datasetName != null
  const time = toWindows(model?.lastEventAt, count, interval)
  return (
    <div className={styles.page}>
      <title>{`${modelName} · Production · ${workspace} · svc`}</title>
      <header className={styles.header}>
        <h1 title={modelName}>{modelName}</h1>
        {model?.lastEventAt != null && (
          <span className={styles.soft} title={toTime(model.lastEventAt)}>
            {`${toCountOf(model.events, 'event')}, the last ${toAgo(model.lastEventAt)}`}
          </span>
        )}
        {model?.registered && <RegistryLink {...name} version={version ?? versions.at(-1)?.modelVersion} />}
        <span className={styles.gap} />
        <Link to="/$workspace/-/production" params={{ workspace }}>
          All models
        </Link>
      </header>
      {model === null || model.events === 0 ? (
        model?.isDataset ? (
          <p className={styles.soft}>
            {`This is a reference of ${toCountOf(model.trainingEvents, 'event')}: what models in production are compared with.`}
          </p>
        ) : (
          <EmptyProduction {...name} title={`${modelName} has sent no event yet`} />
        )
      ) : (
        <>
          <nav className={styles.tabs} aria-label="Views of the model">
            {tabs.map((it) => (
              <Link
                key={it.value}
                to="/$workspace/-/production/$model"
                params={{ workspace, model: modelName }}
                search={(old) => ({ ...old, tab: it.value })}
                aria-current={it.value === tab ? 'page' : undefined}
              >
                {it.label}
                {it.value === 'alerts' && model.firing.length > 0 && (
                  <span className={styles.firing}>{` ${model.firing.length} firing`}</span>
                )}
              </Link>
            ))}
          </nav>
          {tab !== 'events' && (
            <ScopeTools
              search={{ ...search, windows: count, interval }}
              versions={versions}
              segments={segments}
              hasParts={tab !== 'compare' && tab !== 'alerts'}
              onChange={change}
            />
          )}
          {tab === 'drift' && (
            <DriftTab
              scope={scope}
              time={time}
              hasReference={hasReference}
              search={search}
              onSearch={change}
              onAddRule={(it) => {
                setRuleOn(it)
                change({ tab: 'alerts' })
              }}
            />
          )}
          {tab === 'compare' && (
            <CompareTab name={name} time={time} hasReference={hasReference} versions={versions} segments={segments} />
          )}
          {tab === 'labels' && <LabelsTab scope={scope} time={time} />}
          {tab === 'alerts' && (
            <AlertsTab
              name={name}
              time={time}
              hasReference={hasReference}
              ruleOn={ruleOn}
              onRuleOn={setRuleOn}
              versions={versions}
            />
          )}
          {tab === 'events' && (
            <EventsTab name={name} datasetName={model.datasetName} prediction={search.prediction} onSearch={change} />
          )}
        </>
      )}
    </div>
  )
}

/** To the version in the registry, which leads to the run that made it. */
function RegistryLink({ workspaceName, modelName, version }: Scope & { version: string | undefined }) {
  const { data = [] } = useQuery({
    ...registryVersions({ workspaceName, modelName }),
    placeholderData: keepPreviousData,
  })
  const isThere = data.some((it) => it.version === version)
  const model = `${toPagePath(workspaceName)}/-/models/${toPagePath(modelName)}`
  return isThere && version !== undefined ? (
    <PageLink path={`${model}/${toPagePath(version)}`}>{`Version ${version} in the registry`}</PageLink>
  ) : (
    <PageLink path={model}>In the registry</PageLink>
  )
}
