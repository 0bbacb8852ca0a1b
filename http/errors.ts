import { SqlRefused, SqlTooLarge } from '../store/clickhouse/monitoring/sql/errors.ts'
import { firstOrganization, type KeyPlace } from '../store/postgres/accounts/accounts.ts'
import { ActorChanged } from '../store/postgres/accounts/audit.ts'
import { ValuesFull } from '../store/postgres/experiments/room.ts'
import { SearchTooSlow } from '../store/search/search-error.ts'
import { Throttled } from '../throttle/throttle.ts'

/**
 * Every error that a caller can get: its name in the code, its HTTP status, the `sdk_error_code` that clients switch on,
 * and its meaning. The code that throws it writes the message, for the person who has to act on it. The internal cause goes
 * to the log only.
 */
const httpErrors = {
  badRequest: { status: 400, code: 8000001, title: 'a field of the request is missing or wrong' },
  badJson: { status: 400, code: 8000002, title: 'the body is not JSON' },
  badCompression: { status: 400, code: 8000003, title: 'the compressed body is damaged' },
  keyMissing: { status: 401, code: 8000004, title: 'no API key was sent' },
  keyUnknown: { status: 401, code: 90212, title: 'the API key is not registered' },
  keyEnded: { status: 401, code: 90212, title: 'the API key has ended' },
  sessionEnded: { status: 401, code: 8000110, title: 'the session of the browser has ended' },
  identityUnknown: { status: 401, code: 8000115, title: 'a proxy signs in somebody who may not use this service' },
  crossSite: { status: 403, code: 8000111, title: 'a session may change something only from the pages of the service' },
  // Some clients read the codes of 400 and 403 only: see `logging-clients.ts`.
  keyUnknownToLogger: { status: 400, code: 90212, title: 'the API key is not registered, below /clientlib' },
  adminOnly: { status: 403, code: 8000015, title: 'only an admin may do this' },
  experimentKeyMissing: { status: 400, code: 90998, title: 'the experiment key is missing' },
  experimentUnknown: { status: 400, code: 90211, title: 'the experiment does not exist' },
  experimentsFull: {
    status: 403,
    code: 8000154,
    title: 'the workspace or the organization has reached the limit of experiments',
  },
  experimentReadOnly: { status: 403, code: 90210, title: 'the experiment may be read, but not written to' },
  experimentNotToResume: {
    status: 400,
    code: 90210,
    title: 'the experiment to resume does not exist, or may not be written to',
  },
  experimentExists: { status: 400, code: 90999, title: 'an experiment with this key exists' },
  workspaceReadOnly: { status: 403, code: 8000150, title: 'the workspace may be read, but not written to' },
  keyRestricted: { status: 403, code: 8000151, title: 'the API key is for another workspace or project' },
  keyScope: { status: 403, code: 8000152, title: 'the API key has a scope that does not allow this' },
  workspaceUnknown: { status: 400, code: 90219, title: 'the workspace does not exist' },
  ownerOnly: { status: 403, code: 8000017, title: 'only an owner of the workspace may do this' },
  userUnknown: { status: 400, code: 8000018, title: 'the organization has no such user' },
  lastOwner: { status: 400, code: 8000114, title: 'the workspace would be left without an owner' },
  workspaceExists: { status: 400, code: 8000006, title: 'a workspace with this name exists' },
  projectUnknown: { status: 400, code: 8000007, title: 'the project does not exist' },
  projectNameUnknown: { status: 404, code: 8000076, title: 'the workspace has no project of this name' },
  projectExists: { status: 400, code: 8000008, title: 'the workspace has a project with this name' },
  projectReadOnly: { status: 403, code: 8000016, title: 'the project may be read, but not changed' },
  projectNameMissing: { status: 400, code: 98219, title: 'the project name is missing' },
  projectNameTooLong: { status: 400, code: 1341241, title: 'the project name is longer than 100 characters' },
  assetUnknown: { status: 400, code: 8000030, title: 'the experiment has no such asset' },
  modelUnknown: { status: 400, code: 8000031, title: 'the experiment has no such model' },
  imagesFull: { status: 400, code: 7000001, title: 'the experiment has reached the limit of images' },
  textSamplesFull: { status: 400, code: 7000012, title: 'the experiment has reached the limit of text samples' },
  histogramsFull: { status: 400, code: 7000013, title: 'the experiment has reached the limit of histograms' },
  modelElementsFull: { status: 400, code: 7000014, title: 'the experiment has reached the limit of model elements' },
  curvesFull: { status: 400, code: 7000015, title: 'the experiment has reached the limit of curves' },
  notebooksFull: { status: 400, code: 7000016, title: 'the experiment has reached the limit of notebooks' },
  embeddingsFull: { status: 400, code: 7000017, title: 'the experiment has reached the limit of embeddings' },
  videosFull: { status: 400, code: 7000018, title: 'the experiment has reached the limit of videos' },
  valuesFull: {
    status: 400,
    code: 8000155,
    title: 'the experiment has as many bytes of parameters, others, tags, datasets and models as it may',
  },
  workspaceFull: { status: 400, code: 90501, title: 'the workspace has reached the limit of bytes of assets' },
  assetFinal: { status: 400, code: 7000005, title: 'the asset belongs to a closed artifact version' },
  imageFinal: { status: 400, code: 7000006, title: 'the image belongs to a closed artifact version' },
  artifactUnknown: { status: 400, code: 624522, title: 'the artifact does not exist' },
  artifactReadOnly: { status: 403, code: 8000050, title: 'the artifact may be read, but not changed' },
  artifactVersionUnknown: { status: 400, code: 624523, title: 'the artifact version does not exist' },
  artifactVersionExists: { status: 400, code: 90399, title: 'the artifact has this version already' },
  artifactVersionDeleted: {
    status: 400,
    code: 7000019,
    title: 'this version of the artifact was deleted; its number cannot be used again',
  },
  artifactVersionFinal: { status: 400, code: 90401, title: 'the state of the artifact version is final' },
  artifactVersionOpen: { status: 400, code: 90402, title: 'the artifact version is not closed yet' },
  artifactVersionFailed: { status: 400, code: 90403, title: 'the artifact version ended with an error' },
  artifactStateUnknown: { status: 400, code: 90410, title: 'the state of the artifact version is not known' },
  registryModelUnknown: { status: 400, code: 42008, title: 'the registry model does not exist' },
  registryUpdateUnknown: { status: 400, code: 42006, title: 'there is no registry model to update' },
  registryVersionBad: {
    status: 400,
    code: 42001,
    title: 'the version of the registry model is not a semantic version',
  },
  registryModelExists: { status: 400, code: 8000060, title: 'the workspace has a registry model of this name' },
  registryModelReadOnly: { status: 403, code: 8000061, title: 'the registry model may be read, but not changed' },
  registryVersionExists: { status: 400, code: 8000062, title: 'the registry model has this version' },
  registryVersionUnknown: { status: 400, code: 8000063, title: 'the registry model has no such version' },
  stageExists: { status: 400, code: 8000064, title: 'the version has this stage' },
  stageUnknown: { status: 400, code: 8000065, title: 'the version has no such stage' },
  experimentModelUnknown: { status: 400, code: 8000066, title: 'the experiment model to register does not exist' },
  experimentModelEmpty: { status: 400, code: 8000067, title: 'the experiment model to register has no files' },
  webhookUnknown: { status: 400, code: 8000080, title: 'the workspace has no such webhook' },
  webhooksFull: { status: 400, code: 8000081, title: 'the workspace has reached the limit of webhooks' },
  webhookDisabled: { status: 400, code: 8000082, title: 'the webhook is disabled' },
  deliveryUnknown: { status: 400, code: 8000083, title: 'the webhook delivery does not exist' },
  monitoredModelUnknown: { status: 400, code: 8000090, title: 'the workspace has no such monitored model' },
  eventUnknown: { status: 400, code: 8000092, title: 'the model has no such event' },
  featureUnknown: { status: 400, code: 8000100, title: 'the model has no such feature, prediction or label' },
  referenceUnknown: { status: 400, code: 8000101, title: 'there is no reference data set to compare with' },
  alertUnknown: { status: 400, code: 8000102, title: 'the workspace has no such alert rule' },
  segmentUnknown: { status: 400, code: 8000140, title: 'the model has no such segment' },
  segmentTaken: { status: 400, code: 8000141, title: 'the model has a segment of this name' },
  segmentsFull: { status: 400, code: 8000142, title: 'the model has reached the limit of segments' },
  alertsFull: { status: 400, code: 8000103, title: 'the workspace has reached the limit of alert rules' },
  sqlRefused: { status: 400, code: 8000120, title: 'SQL of the request is wrong, or does what it may not' },
  sqlTooLarge: { status: 400, code: 8000121, title: 'SQL of the request would take too much time, memory or rows' },
  sqlOff: { status: 400, code: 8000122, title: 'the service runs no SQL of callers' },
  eventsWrong: {
    status: 400,
    code: 8000091,
    title: 'the batch has wrong events, and the request rejects the whole batch then',
  },
  rangeUnsatisfiable: { status: 416, code: 8000033, title: 'the range of bytes lies beyond the end' },
  deadLetterUnknown: { status: 400, code: 8000130, title: 'the dead letter does not exist' },
  viewChanged: { status: 409, code: 8000046, title: 'the view was saved by somebody else meanwhile' },
  panelUnknown: { status: 400, code: 8000040, title: 'the panel does not exist' },
  panelsFull: { status: 400, code: 8000041, title: 'the workspace has reached the limit of panels' },
  callUnknown: { status: 400, code: 8000042, title: 'the experiment has no such remote call' },
  callFinished: { status: 400, code: 8000043, title: 'the remote call has another result already' },
  callsFull: { status: 400, code: 8000044, title: 'the experiment has reached the limit of pending remote calls' },
  chartTooLarge: { status: 400, code: 8000045, title: 'the chart would exceed the limit of series or points' },
  accountRestricted: { status: 403, code: 7000023, title: 'the service account is restricted to other workspaces' },
  organizationUnknown: {
    status: 400,
    code: 8000070,
    title: 'the organization does not exist, or the key belongs to another one',
  },
  accountUnknown: { status: 400, code: 8000071, title: 'the organization has no such service account' },
  userExists: { status: 400, code: 8000072, title: 'the organization has a user or service account of this name' },
  sessionUnknown: { status: 400, code: 8000112, title: 'the session to end does not exist' },
  keysFull: { status: 400, code: 8000113, title: 'the user has reached the limit of API keys' },
  apiKeyUnknown: { status: 400, code: 8000073, title: 'the API key to delete does not exist' },
  lastAdmin: { status: 400, code: 8000074, title: 'the organization would be left without an admin' },
  secretUnknown: { status: 400, code: 8000075, title: 'the organization has no such secret' },
  secretWithheld: { status: 403, code: 8000153, title: 'the workspace may not use this secret of the organization' },
  secretsOff: { status: 400, code: 8000076, title: 'the service has no master key to encrypt secrets with' },
  routeUnknown: { status: 404, code: 8000009, title: 'no such route' },
  pointsWrong: {
    status: 400,
    code: 8000020,
    title: 'some of the values of a batch below /clientlib are wrong; all others were stored',
  },
  wrongMethod: { status: 405, code: 8000010, title: 'the route has another method' },
  tooLarge: { status: 413, code: 8000011, title: 'the body, also when decompressed, is over the limit' },
  unsupportedType: { status: 415, code: 8000012, title: 'the content type or encoding is not understood' },
  throttled: { status: 429, code: 8000013, title: 'a rate limit was exceeded; nothing of the request was stored' },
  sentAgainLater: {
    status: 429,
    code: 8000019,
    title: 'as 8000014, for clients that send again after 429 only; nothing was stored',
  },
  unavailable: {
    status: 503,
    code: 8000014,
    title: 'a store is down, or the queue is down or full; nothing was stored',
  },
  notSupported: { status: 501, code: 8000130, title: 'the service has no such thing; clients have another way' },
  bug: { status: 500, code: 7777777, title: 'an internal error of the service' },
} as const

type HttpErrorName = keyof typeof httpErrors

/** An error meant for the caller: `message` is public, `cause` is not. */
export class HttpError extends Error {
  readonly kind: HttpErrorName
  readonly status: number
  readonly code: number
  /** Extra response headers, such as `Retry-After`. */
  readonly headers: Record<string, string>
  /** Further details, sent as `data`. */
  readonly data: unknown
  /** How long to delay the answer: it slows down a caller that retries at once. */
  readonly holdMs: number

  constructor(
    kind: HttpErrorName,
    message: string,
    options: { cause?: unknown; headers?: Record<string, string>; holdMs?: number; data?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? {} : { cause: options.cause })
    this.kind = kind
    this.status = httpErrors[kind].status
    this.code = httpErrors[kind].code
    this.headers = options.headers ?? {}
    this.holdMs = options.holdMs ?? 0
    this.data = options.data ?? null
  }
}

export function unknownKey(): HttpError {
  return new HttpError('keyUnknown', 'This API key is not registered.')
}

export function endedKey(atMs: number): HttpError {
  return new HttpError('keyEnded', `This API key ended at ${new Date(atMs).toISOString()}: make another one.`)
}

export function endedSession(): HttpError {
  return new HttpError('sessionEnded', 'The session has ended: sign in again.')
}

export function adminOnly(): HttpError {
  return new HttpError('adminOnly', 'Only an admin may do this: use the key of an admin of your organization.')
}

export function auditorOnly(): HttpError {
  return new HttpError(
    'adminOnly',
    'Only an admin or an auditor may read this: use the key of one of your organization.',
  )
}

/** For what is of the whole service, such as its queue: an admin of another organization may not see it. */
export function operatorOnly(): HttpError {
  return new HttpError(
    'adminOnly',
    `Only an admin of the organization "${firstOrganization}" may do this: it is about the whole service.`,
  )
}

/** The same answer for an absent, a deleted and a foreign experiment. */
export function unknownExperiment(key: string): HttpError {
  return new HttpError('experimentUnknown', `There is no experiment ${key.slice(0, 60)} that this key may use.`)
}

/** For something in the organization of a service account that lies outside the account's workspaces. */
export function restrictedAccount(): HttpError {
  return new HttpError(
    'accountRestricted',
    'This service account is restricted to other workspaces: use one of those listed when it was made.',
  )
}

/** For something that a key cannot reach, because it is for another place. */
export function restrictedKey({ workspaceName, projectName }: KeyPlace) {
  const place =
    projectName === undefined
      ? `the workspace "${workspaceName}"`
      : `the project "${projectName}" of "${workspaceName}"`
  return new HttpError('keyRestricted', `This API key is for ${place} only: use a key without that restriction.`)
}

/** Why something of the caller's organization cannot be reached. */
export const withheldFrom = ({ place }: { place: KeyPlace | null }) =>
  place === null ? restrictedAccount() : restrictedKey(place)

/** For a write by somebody who may read, but lacks the role. */
export function needsEditor(kind: ReadOnlyKind, what: string, workspaceName: string): HttpError {
  return new HttpError(
    kind,
    `You may read the ${what}, but not change it: that needs the role editor or owner in the workspace "${workspaceName}".`,
  )
}

type ReadOnlyKind =
  | 'workspaceReadOnly'
  | 'projectReadOnly'
  | 'experimentReadOnly'
  | 'artifactReadOnly'
  | 'registryModelReadOnly'

/** A store or the queue is unavailable; the caller may repeat the request after `retryAfterSeconds`. */
export function unavailable(what: string, cause?: unknown, retryAfterSeconds = 1): HttpError {
  return new HttpError('unavailable', `${what} Nothing of this request was kept: send it again in a moment.`, {
    cause,
    headers: { 'retry-after': String(retryAfterSeconds) },
  })
}

/** The JSON body of every answer that is not a success. */
export function toErrorEnvelope(error: HttpError) {
  return { msg: error.message, code: error.status, data: error.data, sdk_error_code: error.code }
}

/** A Markdown table for the reference page: one row for each `sdk_error_code`. */
export function describeHttpErrors(): string {
  const rows = Object.values(httpErrors).map((it) => `| ${it.status} | ${it.code} | ${it.title} |`)
  return ['| HTTP | sdk_error_code | when |', '|---|---|---|', ...rows].join('\n')
}

const connectionErrors = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])

/**
 * Turns any error into an HTTP error. A store that is down is `unavailable` (503, retry); every other unexpected error is a
 * bug (500, logged as an error). Decides by code (SQLSTATE, errno), never by message text.
 */
export function toHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error
  if (error instanceof ActorChanged) return error.isKnown ? adminOnly() : unknownKey()
  if (error instanceof SqlRefused) return new HttpError('sqlRefused', `sql: ${error.message}`, error)
  if (error instanceof SqlTooLarge) {
    return new HttpError('sqlTooLarge', `sql: ${error.message} Ask for less time, or fewer columns.`, error)
  }
  if (error instanceof SearchTooSlow) return new HttpError('badRequest', `query: ${error.message}`, error)
  if (error instanceof ValuesFull) return new HttpError('valuesFull', error.message, error)
  if (error instanceof Throttled) return new HttpError('throttled', error.message, error)
  if (isStoreAway(error)) return unavailable('A store of the service does not answer.', error, 2)
  return new HttpError(
    'bug',
    'The service failed to handle this request. The error was logged: please report it with the time of the request.',
    {
      cause: error,
    },
  )
}

function isStoreAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error instanceof AggregateError) return error.errors.some(isStoreAway)
  if (isStoreAway(error.cause)) return true
  const code = 'code' in error ? String(error.code) : ''
  // SQLSTATE classes: 08 connection, 53 out of resources, 57P server shutting down.
  return connectionErrors.has(code) || /^(08|53)...$|^57P..$/.test(code) || error.name === 'StoreAway'
}
