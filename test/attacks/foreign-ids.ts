import type { TestClient } from '../kit/http/client.ts'
import type { AttackClass, OpenApi, Target } from './target.ts'
import { toValue } from './values.ts'

type Known = Record<string, string>

/** Their answers have no end, are about the whole service, or list what is the caller's own. */
const ofNoId = /stream$|\/admin\/|\/account[-/]|v2\/workspaces$|^\/session|mlflow\/[a-z-]+\/search$/

/**
 * Every route is asked about what is there, but another's, and about the same that is not there. Both answers are equal, but for
 * the ids that were asked about: or else ids could be tried until one is found. Somebody of the same organization asks, and
 * somebody of another.
 */
export async function createForeignIds(target: Target): Promise<AttackClass> {
  const { client, stranger, outsider, document, projectName, workspaceName, projectId, experimentKey } = target
  const query = new URLSearchParams({ experimentKey, fileName: 'a.txt' })
  const asset = await client.postRaw(`/write/experiment/upload-asset?${query}`, 'text', {
    headers: { 'content-type': 'text/plain' },
  })
  const artifact = await client.post('/write/artifacts/upsert', { experimentKey, artifactName: 'theirs' })
  const view = await client.post('/write/views/upsert', { projectId, templateName: 'theirs' })
  const rpc = await client.post('/write/experiment/rpc/send', { experimentKey, method: 'm' })
  const rule = { workspaceName, name: 'a', modelName: 'theirs', measure: 'events', windowMs: 86_400_000 }
  const alert = await client.post('/mpm/v2/alerts', rule)
  const filters = [{ feature: 'age', operator: 'present' }]
  const segment = await client.post('/mpm/v2/segments', { workspaceName, modelName: 'theirs', name: 'theirs', filters })
  const found = { ...asset.body, ...artifact.body, ...view.body, ...rpc.body, ...alert.body, ...segment.body }
  const ids = Object.fromEntries(
    Object.entries(found).filter(([name, it]) => /Id$/.test(name) && typeof it === 'string'),
  ) as Known
  const there: Known = {
    ...ids,
    experimentKey,
    previousExperiment: experimentKey,
    experimentId: experimentKey,
    run_id: experimentKey,
    run_uuid: experimentKey,
    projectId,
    experiment_id: projectId,
    workspaceName,
    teamName: workspaceName,
    workspace: workspaceName,
    projectName,
  }
  const absent: Known = Object.fromEntries(Object.entries(there).map(([name, it]) => [name, toAbsent(it)]))
  type Asked = { by: TestClient; method: string; path: string; operation: OpenApi['paths'][string][string] }
  const ask = async ({ by, method, path, operation }: Asked, known: Known) => {
    const parameters = operation.parameters ?? []
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(known[name] ?? 'x'))
    const asked = parameters.filter((it) => it.in === 'query' && (it.required || it.name in known))
    const search = new URLSearchParams(
      asked.map((it): [string, string] => [it.name, toText(toValue(it.schema, it.name, { known }))]),
    )
    const schema = operation.requestBody?.content['application/json']?.schema
    const body = schema && JSON.stringify(toValue(schema, '', { known }))
    const answer = await by.send(method, `${target.url}${filled}?${search}`, body, {
      headers: { 'content-type': 'application/json' },
    })
    return { status: answer.status, text: withoutIds(answer.text, known) }
  }
  const routes = Object.entries(document.paths)
    .filter(([path]) => !ofNoId.test(path))
    .flatMap(([path, operations]) =>
      Object.entries(operations).map(([name, operation]) => ({ path, method: name.toUpperCase(), operation })),
    )
  const attacks = Object.entries({ 'the same organization': stranger, 'another organization': outsider }).flatMap(
    ([of, { client: by }]) =>
      routes.map((it) => ({
        name: `${it.method} ${it.path} by somebody of ${of}`,
        async run() {
          const [theirs, nobodys] = [await ask({ by, ...it }, there), await ask({ by, ...it }, absent)]
          if (theirs.status === nobodys.status && theirs.text === nobodys.text) return undefined
          return `answered ${theirs.status} ${theirs.text.slice(0, 150)}, and what is not there ${nobodys.status} ${nobodys.text.slice(0, 150)}`
        },
      })),
  )
  return { name: 'ids of others', oneIn: 7, attacks }
}

/** Of the same form, so that it passes the same checks. */
function toAbsent(id: string): string {
  return id.replace(/[0-9a-z](?=[^0-9a-z]*$)/i, (it) => (it === '7' ? '8' : '7')).replace(/^default$/, 'defaul7')
}

/** Without what was asked about, and what differs from one answer to the next. */
function withoutIds(text: string, known: Known): string {
  const values = [...new Set(Object.values(known))].toSorted((a, b) => b.length - a.length)
  return values
    .reduce((rest, it) => rest.replaceAll(it, '#'), text)
    .replaceAll(/[0-9a-f]{32}|[0-9a-f-]{36}|\d{4,}/g, '#')
}

const toText = (value: unknown) => (typeof value === 'object' ? JSON.stringify(value) : String(value))
