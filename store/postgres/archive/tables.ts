import { experimentTypes } from '../../limits.ts'

/**
 * The rows of a project in its archive: which columns, with the limits that ordinary writes have. Ids of the server's own are
 * replaced: experiments by their place in the archive, users by their names, objects by their numbers. Times, floats and 64-bit
 * integers are text: JSON would round integers, and has no NaN. A column that may be null may be absent, too.
 */
export type Column = {
  name: string
  isNullable?: true
} /** `isJson` when reads parse it: JSON text, for all rows or for those of some kinds. */ & (
  | { kind: 'text'; charactersMax: number; charactersMin?: number; isJson?: true | readonly string[]; pattern?: RegExp }
  /** Text in an index of Postgres, whose entries have a limit in bytes. */
  | { kind: 'indexed'; charactersMax: number }
  | { kind: 'one of'; values: readonly string[] }
  | { kind: 'texts' | 'int64' | 'float64' | 'boolean' | 'time' | 'experiment' | 'user' | 'object' }
  /** The id of a row of another table of the archive. */
  | { kind: 'row'; table: ReferredTable }
)

/** The tables whose rows others refer to by their ids. */
export const referredTables = ['artifacts', 'artifact_versions', 'logged_models'] as const
type ReferredTable = (typeof referredTables)[number]

export type ArchiveTable = {
  /** In the archive. */
  name: string
  /** In Postgres, if it differs. */
  table?: string
  columns: readonly Column[]
  /** The rows `t` of the project `$1`, or of the experiments `$1`. */
  from: string
  of: 'project' | 'experiments'
  order: string
  /** Columns whose values the target knows. */
  given?: readonly ('project_id' | 'workspace_id')[]
}

const orNull = <C extends Column>(column: C) => ({ ...column, isNullable: true as const })
const text = (name: string, charactersMax: number, charactersMin = 0) =>
  ({ kind: 'text', name, charactersMax, charactersMin }) as const
const json = (name: string, charactersMax: number, isJson: true | readonly string[] = true) => ({
  ...text(name, charactersMax),
  isJson,
})
const indexed = (name: string, charactersMax: number) => ({ kind: 'indexed', name, charactersMax }) as const
const int64 = (name: string) => ({ kind: 'int64', name }) as const
const float64 = (name: string) => ({ kind: 'float64', name }) as const
const isTrue = (name: string) => ({ kind: 'boolean', name }) as const
const time = (name: string) => ({ kind: 'time', name }) as const
const tags = { kind: 'texts', name: 'tags' } as const
const experiment = { kind: 'experiment', name: 'experiment_id' } as const
const user = (name: string) => ({ kind: 'user', name }) as const
const row = (name: string, table: ReferredTable) => ({ kind: 'row', name, table }) as const
const id = text('id', 100, 1)
const metadata = orNull(text('metadata', 1_000_000))

const documentCharactersMax = 16 * 1024 * 1024
const nameCharactersMax = 1_000
const valueCharactersMax = 1_000_000

const ofExperiments = (table: string) => ({
  from: `${table} t WHERE t.experiment_id = ANY($1::bigint[])`,
  of: 'experiments' as const,
})
const ofProject = (table: string) => ({ from: `${table} t WHERE t.project_id = $1`, of: 'project' as const })
/** Versions of the project's artifacts. */
const ofVersions = (table: string) => ({
  from: `${table} t JOIN artifact_versions v ON v.id = t.artifact_version_id JOIN artifacts a ON a.id = v.artifact_id
    WHERE a.project_id = $1`,
  of: 'project' as const,
})
/** The project that an experiment belongs to. */
const projectOf = '(SELECT e.project_id FROM experiments e WHERE e.id = t.experiment_id)'

const fileColumns = [
  text('file_name', 1_000, 1),
  indexed('type', 200),
  { ...text('content_type', 1_000), pattern: /^[\t\x20-\x7e\xa0-\xff]*$/ },
  int64('size'),
  orNull({ ...text('sha256', 64), pattern: /^[0-9a-f]{64}$/ }),
  orNull({ kind: 'object', name: 'object_key' } as const),
  orNull(text('link', 10_000, 1)),
  orNull(int64('step')),
  orNull(text('context', 1_000)),
  metadata,
  tags,
  orNull(indexed('grouping_name', 1_000)),
  int64('created_at_ms'),
]

const viewColumns = [
  id,
  { kind: 'one of', name: 'kind', values: ['dashboard', 'chart'] },
  text('name', 1_000, 1),
  user('user_id'),
  json('content', 5 * 1024 * 1024),
  int64('updated_at_ms'),
] as const

/** In the order in which they refer to each other. */
export const archiveTables: readonly ArchiveTable[] = [
  {
    name: 'experiments',
    from: 'experiments t WHERE t.id = ANY($1::bigint[])',
    of: 'experiments',
    order: 't.id',
    given: ['project_id'],
    columns: [
      { kind: 'experiment', name: 'id' },
      { ...text('key', 50, 1), pattern: /^[0-9a-zA-Z]+$/ },
      user('user_id'),
      text('name', 1_000),
      int64('start_time_ms'),
      orNull(int64('end_time_ms')),
      int64('active_at_ms'),
      orNull(int64('alive_at_ms')),
      orNull(int64('not_alive_at_ms')),
      isTrue('stop_requested'),
      isTrue('archived'),
      orNull(text('file_path', 10_000)),
      orNull(isTrue('has_crashed')),
      orNull(text('error', 100_000)),
      orNull({ kind: 'one of', name: 'reported_status', values: ['RUNNING', 'SCHEDULED'] } as const),
    ],
  },
  {
    name: 'experiment_values',
    ...ofExperiments('experiment_values'),
    order: 't.experiment_id, t.kind, t.name',
    columns: [
      experiment,
      { kind: 'one of', name: 'kind', values: ['parameter', 'other'] },
      indexed('name', 2 * nameCharactersMax + 1),
      text('value', valueCharactersMax),
      orNull(int64('step')),
      int64('timestamp_ms'),
      orNull(text('context', nameCharactersMax)),
    ],
  },
  {
    name: 'experiment_tags',
    ...ofExperiments('experiment_tags'),
    order: 't.experiment_id, t.tag',
    columns: [experiment, indexed('tag', 500), time('added_at')],
  },
  {
    name: 'experiment_documents',
    ...ofExperiments('experiment_documents'),
    order: 't.experiment_id, t.kind',
    columns: [
      experiment,
      {
        kind: 'one of',
        name: 'kind',
        values: ['html', 'code', 'graph', 'git', 'system', 'cloud', 'dependencies'],
      },
      json('content', documentCharactersMax, ['git', 'system', 'cloud', 'dependencies']),
    ],
  },
  {
    name: 'experiment_counters',
    ...ofExperiments('experiment_counters'),
    order: 't.experiment_id, t.data_type',
    columns: [
      experiment,
      { kind: 'one of', name: 'data_type', values: experimentTypes },
      int64('accepted'),
      int64('throttled'),
    ],
  },
  {
    name: 'experiment_throttles',
    ...ofExperiments('experiment_throttles'),
    order: 't.experiment_id, t.reason',
    columns: [experiment, text('reason', 100, 1), int64('last_at_ms')],
  },
  {
    name: 'experiment_models',
    ...ofExperiments('experiment_models'),
    order: 't.experiment_id, t.name',
    columns: [id, experiment, indexed('name', 1_000)],
  },
  {
    name: 'experiment_calls',
    ...ofExperiments('experiment_calls'),
    order: 't.experiment_id, t.place',
    columns: [
      id,
      experiment,
      text('method', 1_000, 1),
      json('arguments', valueCharactersMax),
      orNull(json('result', valueCharactersMax)),
      orNull(text('error', 100_000)),
      int64('created_at_ms'),
      orNull(int64('finished_at_ms')),
    ],
  },
  {
    name: 'artifacts',
    ...ofProject('artifacts'),
    order: 't.created_at, t.id',
    given: ['workspace_id', 'project_id'],
    columns: [
      id,
      text('experiment_key', 200),
      user('owner_id'),
      indexed('name', 1_000),
      text('type', 200, 1),
      isTrue('is_public'),
      orNull(text('description', 100_000)),
      metadata,
      tags,
      time('created_at'),
    ],
  },
  {
    name: 'artifact_versions',
    from: 'artifact_versions t JOIN artifacts a ON a.id = t.artifact_id WHERE a.project_id = $1',
    of: 'project',
    order: 't.place',
    columns: [
      id,
      row('artifact_id', 'artifacts'),
      text('version', 100, 1),
      { kind: 'one of', name: 'state', values: ['OPEN', 'CLOSED', 'ERROR'] },
      orNull(experiment),
      text('experiment_key', 200),
      user('owner_id'),
      metadata,
      tags,
      int64('created_at_ms'),
      orNull(time('deleted_at')),
    ],
  },
  {
    name: 'artifact_aliases',
    ...ofVersions('artifact_aliases'),
    order: 't.artifact_version_id, t.alias',
    columns: [row('artifact_version_id', 'artifact_versions'), indexed('alias', 500)],
  },
  {
    name: 'artifact_consumers',
    from: `${ofVersions('artifact_consumers').from} AND ${projectOf} = $1`,
    of: 'project',
    order: 't.first_at, t.experiment_id',
    columns: [row('artifact_version_id', 'artifact_versions'), experiment, time('first_at')],
  },
  {
    name: 'assets',
    ...ofExperiments('assets'),
    order: 't.experiment_id, t.place',
    columns: [
      experiment,
      id,
      ...fileColumns,
      orNull(int64('epoch')),
      orNull(text('source', 1_000)),
      orNull(row('artifact_version_id', 'artifact_versions')),
    ],
  },
  {
    name: 'artifact_files',
    ...ofVersions('artifact_files'),
    order: 't.artifact_version_id, t.place',
    columns: [
      row('artifact_version_id', 'artifact_versions'),
      text('asset_id', 100, 1),
      int64('place'),
      ...fileColumns,
    ],
  },
  {
    name: 'viz_stores',
    ...ofProject('viz_stores'),
    order: 't.instance_id',
    given: ['project_id'],
    columns: [indexed('instance_id', 200), json('content', 1024 * 1024)],
  },
  {
    name: 'project_default_views',
    ...ofProject('project_default_views'),
    order: 't.page',
    given: ['project_id'],
    columns: [{ kind: 'one of', name: 'page', values: ['experiment', 'project'] }, text('template_id', 200, 1)],
  },
  {
    name: 'project_views',
    table: 'views',
    ...ofProject('views'),
    order: 't.updated_at_ms, t.id',
    given: ['project_id'],
    columns: viewColumns,
  },
  {
    name: 'experiment_views',
    table: 'views',
    ...ofExperiments('views'),
    order: 't.updated_at_ms, t.id',
    columns: [experiment, ...viewColumns],
  },
  {
    name: 'project_tags',
    ...ofProject('project_tags'),
    order: 't.key',
    given: ['project_id'],
    columns: [indexed('key', 1_000), text('value', valueCharactersMax)],
  },
  {
    name: 'run_datasets',
    ...ofExperiments('run_datasets'),
    order: 't.experiment_id, t.name, t.digest',
    columns: [
      experiment,
      indexed('name', 1_000),
      text('digest', 1_000),
      text('source_type', valueCharactersMax),
      text('source', valueCharactersMax),
      orNull(text('schema', documentCharactersMax)),
      orNull(text('profile', documentCharactersMax)),
      json('tags', valueCharactersMax),
    ],
  },
  {
    name: 'logged_models',
    ...ofExperiments('logged_models'),
    order: 't.created_at_ms, t.id',
    columns: [
      id,
      experiment,
      text('name', nameCharactersMax),
      text('grouping_name', 2 * nameCharactersMax),
      orNull(text('model_type', nameCharactersMax)),
      isTrue('is_of_run'),
      text('status', 100),
      json('params', documentCharactersMax),
      json('tags', documentCharactersMax),
      int64('created_at_ms'),
      int64('updated_at_ms'),
      orNull(time('deleted_at')),
    ],
  },
  {
    name: 'logged_model_metrics',
    // Runs of other projects may have measured a model, and runs of this one a model of another.
    from: `logged_model_metrics t JOIN logged_models m ON m.id = t.model_id AND m.experiment_id = ANY($1::bigint[])
      WHERE t.experiment_id = ANY($1::bigint[])`,
    of: 'experiments',
    order: 't.model_id, t.experiment_id, t.name, t.dataset_name, t.dataset_digest',
    columns: [
      row('model_id', 'logged_models'),
      experiment,
      indexed('name', 1_000),
      text('dataset_name', 1_000),
      text('dataset_digest', 1_000),
      float64('value'),
      int64('step'),
      int64('timestamp_ms'),
    ],
  },
  {
    name: 'run_models',
    ...ofExperiments('run_models'),
    order: 't.experiment_id, t.model_id, t.is_output',
    columns: [experiment, text('model_id', 1_000, 1), isTrue('is_output'), int64('step')],
  },
]
