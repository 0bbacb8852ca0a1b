/**
 * The rows of the specification, as the user's interface description and our decisions on what it leaves open have them:
 * method, path below `/api/rest/v2` (of monitoring the whole path), the fields of the request (query or body), the fields of the answer. A field of an
 * object within is written with a dot, whether there is one object or a list of them.
 */
export type Row = { method: string; path: string; request: string[]; answer: string[] }

type Section = { title: string; rows: Row[] }

function row(call: string, request = '', answer = ''): Row {
  const [method = '', path = ''] = call.split(' ')
  const toList = (fields: string) => fields.split(' ').filter(Boolean)
  return { method, path: `/${path}`, request: toList(request), answer: toList(answer) }
}

const place = 'context step epoch timestamp'
const asset =
  'assetId fileName fileSize runContext step remote link dir type metadata tags createdAt canView image audio video ' +
  'histogram curlDownload experimentKey compressedAssetLink s3Link'
const metadata =
  'experimentKey experimentName optimizationId userName projectId projectName workspaceName filePath fileName ' +
  'durationMillis startTimeMillis endTimeMillis archived running throttle throttleMessage throttleReasons'
const project =
  'projectId projectName ownerUserName projectDescription workspaceName numberOfExperiments lastUpdated public isPublic'
const summary =
  'name valueMax valueMin valueCurrent timestampMax timestampMin timestampCurrent runContextMax runContextMin ' +
  'runContextCurrent stepMax stepMin stepCurrent editable'
const version = 'registryModelItemId experimentModel version comment stages userName createdAt lastUpdated restApiUrl'
const secretEnvelope = 'msg code data sdk_error_code'
const webhook =
  'webhookConfigs.workspaceName webhookConfigs.modelName webhookConfigs.webhookUrls.url ' +
  'webhookConfigs.webhookUrls.header webhookConfigs.webhookUrls.triggers webhookConfigs.webhookUrls.name ' +
  'webhookConfigs.webhookUrls.gitHostUrl'
const monitored = 'workspaceName modelName modelVersion'
const within = (name: string, fields: string) =>
  fields
    .split(' ')
    .map((it) => `${name}.${it}`)
    .join(' ')

export const specification: Section[] = [
  {
    title: 'Workspaces and members',
    rows: [
      row('POST write/workspace/new', 'name plan', 'msg workspace_name workspace_id code'),
      row('POST write/add-workspace-member', 'userName workspaceName admin', 'msg'),
    ],
  },
  {
    title: 'Projects',
    rows: [
      row('POST write/project/create', 'workspaceName projectName projectDescription isPublic', 'projectId'),
      row('POST write/project/delete', 'workspaceName projectName deleteAllExperiments', 'msg'),
      row(
        'POST write/project/update',
        'projectId projectName workspaceName newProjectName newProjectDescription isPublic',
        'msg',
      ),
      row('POST write/project/notes', 'projectId notes', 'msg'),
      row('GET write/project/add-share-link', 'projectId', 'shareCode'),
      row('GET write/project/delete-project-share-link', 'projectId shareCode', 'msg'),
      row('GET write/project/symlink', 'exerimentKey projectName', 'link'),
      row('POST write/template/set-default', 'templateId projectId projectName workspaceName', 'msg'),
      row('POST write/dashboard-template/set-default', 'templateId projectId projectName workspaceName', 'msg'),
    ],
  },
  {
    title: 'Experiments: lifecycle',
    rows: [
      row(
        'POST write/experiment/create',
        'workspaceName projectName experimentName',
        'experimentKey workspaceName projectName link',
      ),
      row('GET write/experiment/stop', 'experimentKey', 'msg'),
      row('GET write/experiment/archive', 'experimentKey', 'msg'),
      row('GET write/experiment/delete', 'experimentKey', 'msg'),
      row('GET write/experiment/restore', 'experimentKey', 'msg'),
      row('POST write/experiment/move', 'targetWorkspaceName targetProjectName experimentKeys symlink', 'msg'),
      row(
        'GET write/experiment/set-status',
        'experimentKey',
        'isAliveBeatDurationMillis gpuMonitorIntervalMillis cpuMonitorIntervalMillis',
      ),
      row('POST write/experiment/set-start-end-time', 'experimentKey startTimeMillis endTimeMillis', 'msg'),
    ],
  },
  {
    title: 'Experiments: logging data',
    rows: [
      row('POST write/experiment/log-other', 'experimentKey key value timestamp', 'msg'),
      row('POST write/experiment/parameter', 'experimentKey parameterName parameterValue step timestamp', 'msg'),
      row('POST write/experiment/metric', `experimentKey metricName metricValue ${place}`, 'msg'),
      row('POST write/experiment/html', 'experimentKey html override timestamp', 'msg'),
      row('POST write/experiment/upload-text-sample', 'apiKey experimentKey step context metadata content', 'msg'),
      row(
        'POST write/experiment/system-details',
        'experimentKey user pythonVersion pythonVersionVerbose pid osType os ip hostname gpuStaticInfoList.gpuIndex ' +
          'gpuStaticInfoList.name gpuStaticInfoList.uuid gpuStaticInfoList.totalMemory gpuStaticInfoList.powerLimit ' +
          'logAdditionalSystemInfoList.key logAdditionalSystemInfoList.value networkInterfaceIps command executable ' +
          'osPackages installedPackages',
        'msg',
      ),
      row('POST write/experiment/git/metadata', 'experimentKey user root branch parent origin', 'msg'),
      row(
        'POST write/experiment/output',
        'experimentKey context outputLines.output outputLines.stderr outputLines.localTimestamp outputLines.offset',
        'msg',
      ),
      row('POST write/experiment/graph', 'experimentKey graph', 'msg'),
      row('POST write/experiment/code', 'experimentKey code', 'msg'),
      row('POST write/experiment/tags', 'experimentKey addedTags', 'msg'),
      row('POST write/experiment/cloud-details', 'experimentKey provider metadata', 'msg'),
      row('POST write/experiment/file-path', 'experimentKey filePath', 'msg'),
      row(
        'POST write/experiment/gpu-metrics',
        `experimentKey ${within('gpus', 'gpuId freeMemory usedMemory gpuUtilization totalMemory')} ${place}`,
        'msg',
      ),
      row('POST write/experiment/ram-metrics', `experimentKey totalRam usedRam ${place}`, 'msg'),
      row('POST write/experiment/cpu-metrics', `experimentKey cpuPercentUtilization ${place}`, 'msg'),
      row('POST write/experiment/load-metrics', `experimentKey loadAverage ${place}`, 'msg'),
    ],
  },
  {
    title: 'Experiments: assets',
    rows: [
      row(
        'POST write/experiment/upload-asset',
        'experimentKey extension step fileName context type metadata overwrite epoch groupingName source ' +
          'artifactVersionId assetId file tags link isRemote',
        'msg assetId',
      ),
      row('POST write/experiment/git/patch', 'experimentKey', 'msg'),
      row(
        'POST write/experiment/assets/remote/batch',
        `${within('remoteAssets', 'artifactId artifactVersionId assetId type fileName metadata link')} remoteEntities`,
        'msg',
      ),
      row('GET write/experiment/asset/delete', 'experimentKey assetId', 'msg'),
      row('POST write/experiment/asset/tag', 'experimentKey assetId tags', 'msg'),
      row('GET write/experiment/asset/tag/delete', 'experimentKey assetId tag', 'msg'),
      row('POST write/template/upload', 'file teamName templateId', 'msg'),
      row('POST write/experiment/rpc/send', 'experimentKey method arguments', 'msg rpcId'),
    ],
  },
  {
    title: 'Artifacts and stores',
    rows: [
      row(
        'POST write/artifacts/upsert',
        'artifactName experimentKey version artifactType isPublic alias versionTags versionMetadata description',
        'artifactId artifactVersionId previousVersion currentVersion',
      ),
      row('POST write/artifacts/state', 'experimentKey artifactVersionId isPublic state', 'msg'),
      row('POST write/viz-instance/store/save', 'instanceId projectId store', 'msg'),
    ],
  },
  {
    title: 'Model registry',
    rows: [
      row(
        'POST write/registry-model',
        'experimentModelId registryModelName description isPublic version comment stages',
        'registryModelId registryModelItemId',
      ),
      row(
        'POST write/registry-model/item',
        'experimentModelId registryModelName version comment stages',
        'registryModelId registryModelItemId',
      ),
      row('POST write/registry-model/item/update', 'registryModelItemId comment stages'),
      row('GET write/registry-model/item/delete', 'modelItemId'),
      row('POST write/registry-model/update', 'registryModelId registryModelName description isPublic'),
      row('POST write/registry-model/notes', 'workspaceName registryModelName notes'),
      row('GET write/registry-model/delete', 'workspaceName modelName'),
      row('GET write/registry-model/item/stage', 'modelItemId stage'),
      row('GET write/registry-model/item/stage/delete', 'modelItemId stage'),
    ],
  },
  {
    title: 'Webhooks',
    rows: [row('POST webhooks/config', webhook), row('PUT webhooks/config', webhook)],
  },
  {
    title: 'Service accounts and organization secrets',
    rows: [
      row(
        'POST write/service-account',
        'name teamName organizationName authorizedWorkspaces',
        'apiKey authorizedWorkspaces createdAt createdBy defaultWorkspaceName deleted hasGlobalAccess lastActivityAt ' +
          'name organizationId',
      ),
      row('POST write/service-account/{accountName}/create-api-key', 'accountName', 'apiKey createdAt'),
      row('POST write/service-account/{accountName}/delete-api-key', 'accountName apiKey', secretEnvelope),
      row('DELETE write/service-account/{accountName}', 'accountName', secretEnvelope),
      row('GET write/api/rotate', 'userName', 'apiKey'),
      row('PUT write/organization/{organizationId}/secrets', 'organizationId secretName secretValue'),
      row('DELETE write/organization/{organizationId}/secrets/{secretName}', 'organizationId secretName'),
    ],
  },
  {
    title: 'Writes that we add',
    rows: [
      row(
        'POST write/experiment/metrics/batch',
        `experimentKey ${within('metrics', `metricName metricValue ${place}`)} ` +
          within('series', 'metricName context steps epochs timestamps values'),
        'accepted rejected.index rejected.msg throttled',
      ),
      row('POST write/experiment/update-status', 'experimentKey isAlive error hasCrashed', 'msg'),
      row('PUT write/experiment/dependencies', 'experimentKey logDependencies.name logDependencies.version', 'msg'),
      row('POST write/artifacts/details', 'artifactId artifactType versionMetadata version tags', 'msg'),
      row('POST write/artifacts/version/labels', 'artifactVersionId alias versionTags versionMetadata', 'msg'),
    ],
  },
  {
    title: 'Reads',
    rows: [
      row('GET account-details', '', 'userName defaultWorkspaceName'),
      row('GET workspaces', '', 'workspaceNames'),
      row('GET projects', 'workspaceName', within('projects', project)),
      row('GET project', 'projectId workspaceName projectName', project),
      row('GET project/notes', 'projectId', 'notes'),
      row(
        'GET project/column-names',
        'projectId workspaceName projectName archived',
        within('columns', 'name id type source'),
      ),
      row('GET project/get-project-share-links', 'projectId', 'shareCodes'),
      row('POST project/query', 'workspaceName projectName predicates archived', within('experiments', metadata)),
      row(
        'GET experiments',
        'projectId workspaceName projectName archived page pageSize',
        within('experiments', metadata),
      ),
      row('GET experiment/metadata', 'experimentKey', metadata),
      row('GET experiment/metrics/summary', 'experimentKey'),
      row('GET experiment/parameters', 'experimentKey', within('values', summary)),
      row('GET experiment/log-other', 'experimentKey', within('values', summary)),
      row('GET experiment/metrics/get-metric', 'experimentKey metricName maxPoints'),
      row(
        'POST experiments/multi-metric-chart',
        'targetedExperiments metrics params independentMetrics fetchFull',
        'experiments empty',
      ),
      row('GET experiment/tags', 'experimentKey', 'tags'),
      row('GET experiment/html', 'experimentKey', 'html'),
      row('GET experiment/code', 'experimentKey', 'code'),
      row('GET experiment/output', 'experimentKey'),
      row('GET experiment/graph', 'experimentKey', 'graph'),
      row('GET experiment/git/metadata', 'experimentKey', 'user root branch parent origin'),
      row('GET experiment/git/patch', 'experimentKey'),
      row('GET experiment/system-details', 'experimentKey', 'systemMetricNames maxTotalMemory totalRam'),
      row('GET experiment/asset/list', 'experimentKey type', within('assets', asset)),
      row('GET experiment/asset/get-asset', 'experimentKey assetId artifactVersionId'),
      row(
        'GET experiment/model',
        'experimentKey',
        'models.experimentModelId models.experimentKey models.modelName models.registryRecords.registryModelId ' +
          'models.registryRecords.registryModelItemId models.registryRecords.registryModelName ' +
          'models.registryRecords.version models.registryRecords.createdAt',
      ),
      row('GET experiment/model/asset/list', 'experimentKey modelName', within('assets', asset)),
      row('GET experiment/model/download', 'experimentKey modelName'),
      row(
        'GET registry-model',
        'workspaceName',
        within(
          'registryModels',
          'registryModelId modelName description numberOfVersions isPublic imagePath userName createdAt lastUpdated ' +
            'latestVersion.registryModelItemId latestVersion.experimentModel latestVersion.version ' +
            'latestVersion.comment latestVersion.stages latestVersion.metadata latestVersion.userName ' +
            'latestVersion.createdAt latestVersion.lastUpdated',
        ),
      ),
      row('GET registry-model/count', 'workspaceName', 'registryModelCount'),
      row(
        'GET registry-model/details',
        'workspaceName modelName',
        'registryModelId workspaceId modelName description numberOfVersions isPublic autoGenerated monitored imagePath ' +
          `userName createdAt lastUpdated ${within('versions', `${version} assets`)}`,
      ),
      row('GET registry-model/notes', 'workspaceName modelName', 'notes'),
      row('GET registry-model/item/download', 'workspaceName modelName version stage'),
      row('GET registry-model/item/download-instructions', 'workspaceName modelName version stage', 'versions.assets'),
      row(
        'GET registry-model/latest_version',
        'workspaceName modelName versionMajor versionMinor stage',
        version.replace(' restApiUrl', ''),
      ),
      row(
        'GET artifacts/version',
        'artifactId artifactName workspace project version alias versionOrAlias versionId experimentKey ' +
          'consumerExperimentKey',
        'artifactVersionId artifactVersion owner createdFrom sizeInBytes metadata note added state tags alias ' +
          `experimentKey ${within(
            'artifact',
            'artifactId artifactName projectId workspaceId workspaceName experimentKey description version metadata ' +
              'artifactType isPublic owner s3FileSize emoji tags',
          )}`,
      ),
      row(
        'GET artifacts/version/files',
        'workspace artifactName version alias artifactId versionId',
        within('files', 'artifactId artifactVersionId assetId fileName fileSize link dir type metadata remote'),
      ),
      row('GET artifacts/get', 'artifactId workspace artifactName', 'artifactId latestVersion'),
      row('GET artifacts/get-all', 'workspace type', 'artifacts'),
      row('GET artifacts/version/download', 'artifactId workspace artifactName version experimentKey'),
      row('GET webhooks/config', 'workspaceName modelName'),
      row('GET experiment/stream', 'experimentKey'),
    ],
  },
  {
    title: 'Production monitoring',
    rows: [
      row('GET mpm/isAlive/ping', '', 'msg code'),
      row(
        'POST mpm/v2/events/batch',
        `enforceValidation ${within('data', `${monitored} predictionId timestamp features prediction predictions labels value`)}`,
        'code accepted duplicates rejected',
      ),
      row(
        'POST mpm/v2/labels/batch',
        `enforceValidation ${within('data', `${monitored} predictionId timestamp labels value`)}`,
        'code accepted duplicates rejected',
      ),
      row('POST mpm/v2/data/events/csv', `file ${monitored} datasetName NAValues keepDefaultNAValues`),
      row('POST mpm/v2/data/labels/csv', `file ${monitored} datasetName NAValues keepDefaultNAValues`),
      row('POST mpm/v2/dataset/events/csv', `file ${monitored} datasetName NAValues keepDefaultNAValues`),
      row(
        'GET mpm/v2/models',
        'workspaceName modelName',
        within('models', 'modelName versions.modelVersion versions.events'),
      ),
      row(
        'GET mpm/v2/events/count',
        'workspaceName modelName modelVersion from to interval',
        within('counts', 'timestamp modelVersion events labels'),
      ),
      row('GET mpm/v2/event', 'workspaceName modelName predictionId', 'features.type prediction.value labels.value'),
      row('GET mpm/v2/errors', 'workspaceName modelName', within('errors', 'msg count firstAt lastAt')),
      row('GET mpm/v2/features', `${monitored} kind from to`, within('features', 'name part type values missingShare')),
      row(
        'GET mpm/v2/distribution',
        `${monitored} feature part from to interval bins edges top`,
        within('windows', 'from to counts missingShare min max mean std quantiles distinct'),
      ),
      row(
        'GET mpm/v2/drift',
        `${monitored} datasetName feature part from to interval measure driftShare`,
        `reference.datasetName ${within('windows', 'drifted driftedShare features.psi features.jensenShannon features.kolmogorovSmirnov features.wasserstein')}`,
      ),
      row(
        'GET mpm/v2/labels/quality',
        `${monitored} label prediction task from to interval`,
        within('windows', 'accuracy precision recall f1 meanAbsoluteError rootMeanSquaredError bias unlabelledShare'),
      ),
      row(
        'POST mpm/v2/alerts',
        `workspaceName modelName experimentKey metricName name measure feature threshold comparison windowMs graceMs`,
        'alertId',
      ),
      row('GET mpm/v2/alerts', 'workspaceName modelName', within('alerts', 'alertId measure threshold paused')),
      row(
        'GET mpm/v2/alerts/firings',
        'workspaceName modelName alertId',
        within('firings', 'windowFrom windowTo found'),
      ),
    ],
  },
]
