import type { QueryClient } from '@tanstack/react-query'
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  retainSearchParams,
} from '@tanstack/react-router'
import { isReason, type Reason } from '../accounts/reasons.ts'
import { parseAdminSearch } from '../admin/admin-search.ts'
import { session } from '../api/accounts.ts'
import { lineage as lineageQuery } from '../api/artifacts/lineage.ts'
import { baseUrl, isEmbedded, shareCode } from '../api/http.ts'
import { project as projectOf } from '../api/projects.ts'
import { knownColumns } from '../api/runs.ts'
import { parseArtifactsSearch, parseVersionSearch } from '../artifacts/artifacts-search.ts'
import { parseDashboardSearch } from '../dashboards/dashboard-search.ts'
import { parseAlertsSearch } from '../experiments/alerts/alerts-search.ts'
import { parseChartSearch } from '../experiments/chart-search.ts'
import { parseCompareSearch } from '../experiments/compare/compare-search.ts'
import { parseOutputSearch } from '../experiments/output/output-search.ts'
import { parseRunSearch } from '../experiments/run/run-search.ts'
import { parseRunsSearch } from '../experiments/runs-search.ts'
import { ErrorPlace } from '../kit/places.tsx'
import { parseLineageSearch, toLineageOf } from '../lineage/lineage-search.ts'
import { parseMediaSearch } from '../media/media-search.ts'
import { parseProductionSearch } from '../production/production-search.ts'
import { parseProjectsSearch } from '../projects/projects-search.ts'
import { parseModelsSearch } from '../registry/models-search.ts'
import { parseWebhooksSearch } from '../registry/webhooks/webhooks-search.ts'
import { MissingPage } from './missing-page.tsx'
import { followMlflowLink } from './mlflow-links.ts'
import { Shell } from './shell.tsx'

/**
 * Every page of the interface. Each is loaded on its first visit. A page's search parameters are its state: `validateSearch`
 * gives them types, and throws nothing away that a link may hold.
 */

const root = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  component: Shell,
  notFoundComponent: MissingPage,
  // Whoever reads by a share link keeps its code from page to page.
  validateSearch: ({ shareCode }: Record<string, unknown>): { shareCode?: string } =>
    shareCode === undefined ? {} : { shareCode: String(shareCode) },
  search: { middlewares: [retainSearchParams(['shareCode'])] },
})

/** Begins the reads of a page while its script is on its way; nobody who is not signed in has any. */
async function begin(client: QueryClient, read: () => Promise<void>[]) {
  const reader = shareCode() ?? (await client.ensureQueryData(session).catch(() => null))
  if (reader) void Promise.all(read())
}

const home = createRoute({
  getParentRoute: () => root,
  path: '/',
  validateSearch: parseProjectsSearch,
  beforeLoad: ({ context, location }) => followMlflowLink(context.queryClient, location.hash),
  component: lazyRouteComponent(() => import('../projects/home-page.tsx'), 'HomePage'),
})

const workspace = createRoute({
  getParentRoute: () => root,
  path: '/$workspace',
  validateSearch: parseProjectsSearch,
  component: lazyRouteComponent(() => import('../projects/workspace-page.tsx'), 'WorkspacePage'),
})

const project = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/$project',
  validateSearch: parseRunsSearch,
  loader({ context: { queryClient: client }, params }) {
    void begin(client, () => [
      client.prefetchQuery(projectOf(params.workspace, params.project)),
      client.prefetchQuery(knownColumns(params.workspace, params.project)),
    ])
  },
  component: lazyRouteComponent(() => import('./project-page.tsx'), 'ProjectPage'),
})

const run = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/$project/$key',
  validateSearch: parseRunSearch,
  component: lazyRouteComponent(() => import('./run-page.tsx'), 'RunRoute'),
})

const compare = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/$project/-/compare',
  validateSearch: parseCompareSearch,
  component: lazyRouteComponent(() => import('../experiments/compare/compare-page.tsx'), 'ComparePage'),
})

const chart = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/$project/-/chart',
  validateSearch: parseChartSearch,
  component: lazyRouteComponent(() => import('./chart-page.tsx'), 'ChartRoute'),
})

const media = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/$project/-/media',
  validateSearch: parseMediaSearch,
  component: lazyRouteComponent(() => import('../media/media-page.tsx'), 'MediaPage'),
})

const outputSearch = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/$project/-/output',
  validateSearch: parseOutputSearch,
  component: lazyRouteComponent(() => import('../experiments/output/search-page.tsx'), 'OutputSearchPage'),
})

const notes = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/$project/-/notes',
  component: lazyRouteComponent(() => import('../experiments/notes/notes-page.tsx'), 'NotesPage'),
})

const alerts = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/$project/-/alerts',
  validateSearch: parseAlertsSearch,
  component: lazyRouteComponent(() => import('../experiments/alerts/alerts-page.tsx'), 'AlertsPage'),
})

const models = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/-/models',
  validateSearch: parseModelsSearch,
  component: lazyRouteComponent(() => import('../registry/models-page.tsx'), 'ModelsPage'),
})

const model = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/-/models/$model',
  component: lazyRouteComponent(() => import('../registry/model-page.tsx'), 'ModelPage'),
})

const modelVersion = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/-/models/$model/$version',
  component: lazyRouteComponent(() => import('../registry/version-page.tsx'), 'VersionPage'),
})

const artifacts = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/-/artifacts',
  validateSearch: parseArtifactsSearch,
  component: lazyRouteComponent(() => import('../artifacts/artifacts-page.tsx'), 'ArtifactsPage'),
})

const artifact = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/-/artifacts/$artifact',
  component: lazyRouteComponent(() => import('../artifacts/artifact-page.tsx'), 'ArtifactPage'),
})

const artifactVersion = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/-/artifacts/$artifact/$version',
  validateSearch: parseVersionSearch,
  component: lazyRouteComponent(() => import('./artifact-version-page.tsx'), 'ArtifactVersionRoute'),
})

const lineage = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/-/lineage',
  validateSearch: parseLineageSearch,
  loaderDeps: ({ search }) => ({ of: toLineageOf(search) }),
  loader({ context: { queryClient: client }, deps: { of } }) {
    if (of) void begin(client, () => [client.prefetchQuery(lineageQuery(of))])
  },
  component: lazyRouteComponent(() => import('../lineage/lineage-page.tsx'), 'LineagePage'),
})

const webhooks = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/-/webhooks',
  validateSearch: parseWebhooksSearch,
  component: lazyRouteComponent(() => import('../registry/webhooks/webhooks-page.tsx'), 'WebhooksPage'),
})

const production = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/-/production',
  component: lazyRouteComponent(() => import('../production/models-page.tsx'), 'ProductionPage'),
})

const productionModel = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/-/production/$model',
  validateSearch: parseProductionSearch,
  component: lazyRouteComponent(() => import('../production/model-page.tsx'), 'ProductionModelPage'),
})

const dashboards = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/$project/-/dashboards',
  component: lazyRouteComponent(() => import('../dashboards/dashboards-page.tsx'), 'DashboardsPage'),
})

const dashboard = createRoute({
  getParentRoute: () => root,
  path: '/$workspace/$project/-/dashboards/$dashboard',
  validateSearch: parseDashboardSearch,
  component: lazyRouteComponent(() => import('./dashboard-page.tsx'), 'DashboardRoute'),
})

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/-/sign-in',
  validateSearch: ({ reason }: Record<string, unknown>): { reason?: Reason } => (isReason(reason) ? { reason } : {}),
  component: lazyRouteComponent(() => import('../accounts/sign-in-route.tsx'), 'SignInPage'),
})

const settings = createRoute({
  getParentRoute: () => root,
  path: '/-/settings',
  validateSearch: ({ section }: Record<string, unknown>): { section?: string } =>
    section === undefined ? {} : { section: String(section) },
  component: lazyRouteComponent(() => import('../accounts/settings-page.tsx'), 'SettingsPage'),
})

const adminPages = {
  getParentRoute: () => root,
  validateSearch: parseAdminSearch,
  component: lazyRouteComponent(() => import('../admin/admin-page.tsx'), 'AdminPage'),
}
const admin = createRoute({ ...adminPages, path: '/-/admin' })
const adminSection = createRoute({ ...adminPages, path: '/-/admin/$section' })

export function openRouter(queryClient: QueryClient) {
  return createRouter({
    routeTree: root.addChildren([
      ...[home, workspace, project, run, compare, chart, outputSearch, alerts, notes, signIn, settings],
      ...[media, artifacts, artifact, artifactVersion, lineage],
      ...[models, model, modelVersion, webhooks, production, productionModel, dashboards, dashboard],
      ...[admin, adminSection],
    ]),
    basepath: isEmbedded ? `${baseUrl.pathname}-/embed` : baseUrl.pathname,
    context: { queryClient },
    defaultPreload: 'intent',
    defaultErrorComponent: ({ error, reset }) => <ErrorPlace error={error} onRetry={reset} />,
    scrollRestoration: false,
  })
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof openRouter>
  }
}
