import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService } from '../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let document: OpenApi
beforeAll(async () => {
  service = await openTestService()
  const answer = await fetch(`${service.url}/openapi.json`)
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toBe('application/json')
  document = (await answer.json()) as OpenApi
})
afterAll(() => service?.close())

type Schema = {
  type?: string | string[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  anyOf?: Schema[]
  [keyword: string]: unknown
}
type Content = { content: Record<string, { schema: Schema }> }
type Operation = {
  operationId: string
  summary: string
  description: string
  tags: string[]
  security: Record<string, []>[]
  parameters?: { name: string; in: string; required: boolean; schema: Schema }[]
  requestBody?: Content
  responses: Record<string, { description: string } & Partial<Content>>
}
type OpenApi = {
  openapi: string
  info: { title: string; version: string; description: string }
  paths: Record<string, Record<string, Operation>>
  components: { securitySchemes: Record<string, unknown> }
}

const prefix = '/api/rest/v2'
const operations = () =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
  )
const bodyOf = (path: string) =>
  document.paths[prefix + path]?.post?.requestBody?.content['application/json']?.schema as Schema
const answerOf = (path: string, method: string) =>
  document.paths[prefix + path]?.[method]?.responses['200']?.content?.['application/json']?.schema as Schema

function eachSchema(schema: Schema, visit: (schema: Schema) => void) {
  visit(schema)
  for (const it of Object.values(schema.properties ?? {})) eachSchema(it, visit)
  for (const it of [schema.items, ...(schema.anyOf ?? [])]) if (it) eachSchema(it, visit)
}

describe('/openapi.json', () => {
  it('is OpenAPI 3.1 in which every operation has a name, a sentence, a heading and its answers', () => {
    expect(document.openapi).toBe('3.1.0')
    expect(document.info).toMatchObject({ title: 'svc', version: expect.stringMatching(/^\d+\.\d+\.\d+/) })
    for (const operation of operations()) {
      expect(operation.path).toMatch(
        /^\/((api\/rest|api\/mpm|api\/[23]\.0\/mlflow(-artifacts)?|mpm|clientlib)\/[a-zA-Z0-9]|session(\/providers)?$)/,
      )
      expect(['get', 'post', 'put', 'patch', 'delete']).toContain(operation.method)
      expect(operation.operationId).toMatch(/^[a-z][a-zA-Z0-9_]+$/)
      expect(operation.summary).toMatch(/^[a-z][\w./{}-]+$/)
      expect(operation.description).toMatch(/^[A-Z].+\.$/s)
      expect(operation.tags).toHaveLength(1)
      expect(Object.keys(operation.responses)).toEqual([expect.stringMatching(/^20[04]$/), 'default'])
      for (const answer of Object.values(operation.responses)) expect(answer.description).not.toBe('')
      for (const { required, schema, ...parameter } of operation.parameters ?? []) {
        const isInPath = operation.path.includes(`{${parameter.name}}`)
        expect(parameter).toMatchObject({ in: isInPath ? 'path' : 'query', name: expect.any(String) })
        expect(isInPath ? required === true : typeof required === 'boolean').toBe(true)
        expect(schema.type).toMatch(/^(string|integer|number|boolean|array)$/)
      }
      // Absent where no key is needed.
      for (const needed of (operation.security ?? []).flatMap(Object.keys)) {
        expect(document.components.securitySchemes).toHaveProperty(needed)
      }
    }
    const ids = operations().map((it) => it.operationId)
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('has every route of the service', () => {
    const served = service.routes.map(
      (it) => `${it.method.toLowerCase()} ${it.atRoot ? '' : prefix}${it.path.replace('*}', '}')}`,
    )

    expect(
      operations()
        .map((it) => `${it.method} ${it.path}`)
        .toSorted(),
    ).toEqual(served.toSorted())
  })

  it('has the fields of a point, each with its one type', () => {
    const int64 = { type: ['integer', 'string', 'null'], format: 'int64' }
    const point = {
      metricName: { type: 'string', minLength: 1, maxLength: 1_000 },
      metricValue: {
        type: ['number', 'string'],
        description: 'a 64-bit float; NaN and the infinities with quotes or without',
      },
      context: { type: ['string', 'null'], maxLength: 1_000 },
      runContext: { type: ['string', 'null'], maxLength: 1_000 },
      step: int64,
      epoch: int64,
      timestamp: { ...int64, description: 'ms since the Unix epoch' },
    }
    const experimentKey = expect.objectContaining({ type: 'string' })

    const metric = bodyOf('/write/experiment/metric')
    expect(metric).toEqual({
      type: 'object',
      properties: { experimentKey, ...point },
      required: ['experimentKey', 'metricName', 'metricValue'],
    })

    const { properties, required } = bodyOf('/write/experiment/metrics/batch')
    expect(required).toEqual(['experimentKey'])
    expect(properties).toEqual({
      experimentKey,
      metrics: {
        type: ['array', 'null'],
        items: { type: 'object', properties: point, required: ['metricName', 'metricValue'] },
      },
      series: {
        type: ['array', 'null'],
        items: {
          type: 'object',
          properties: {
            metricName: point.metricName,
            context: point.context,
            runContext: point.runContext,
            steps: { type: ['array', 'null'], items: point.step },
            epochs: { type: ['array', 'null'], items: point.epoch },
            timestamps: { type: ['array', 'null'], items: point.timestamp },
            firstIndex: expect.objectContaining({ type: ['integer', 'null'], minimum: 0, maximum: 2 ** 32 - 1 }),
            values: { type: 'array', items: point.metricValue },
          },
          required: ['metricName', 'values'],
        },
      },
    })
  })

  it('gives every field of every request and answer a type, and no two that exclude each other', () => {
    for (const { requestBody, responses, parameters } of operations()) {
      const contents = [requestBody, ...Object.values(responses)].flatMap((it) => Object.values(it?.content ?? {}))
      const schemas = [...contents.map((it) => it.schema), ...(parameters ?? []).map((it) => it.schema)]
      for (const schema of schemas) {
        eachSchema(schema, (it) => {
          expect(it.type ?? it.anyOf, JSON.stringify(it)).toBeDefined()
          expect(it.type && it.anyOf).toBeUndefined()
          expect(it.additionalProperties).not.toBe(false)
        })
      }
    }
  })

  it('shows the envelope of writes, and the fields of reads', () => {
    const envelope = ['msg', 'code', 'data', 'sdk_error_code']
    expect(answerOf('/write/experiment/metric', 'post').required?.toSorted()).toEqual(envelope.toSorted())
    expect(answerOf('/write/experiment/set-status', 'get').required).toEqual(expect.arrayContaining(envelope))
    expect(Object.keys(answerOf('/workspaces', 'get').properties ?? {})).toEqual(['workspaceNames'])
    const summary = answerOf('/experiment/metrics/summary', 'get').properties?.values?.items?.properties
    expect(Object.keys(summary ?? {})).toHaveLength(14)
    const refused =
      document.paths[`${prefix}/workspaces`]?.get?.responses.default?.content?.['application/json']?.schema
    expect(refused?.required?.toSorted()).toEqual(envelope.toSorted())
  })

  it('lists every sdk_error_code with its status', () => {
    for (const code of [90211, 90212, 90219, 90998, 90999, 98219, 1341241, 7777777, 8000001, 8000013, 8000014]) {
      expect(document.info.description).toMatch(new RegExp(`\\| \\d{3} \\| ${code} \\| .+ \\|`))
    }
  })
})

it('/reference is a page', async () => {
  const answer = await fetch(`${service.url}/reference`)
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, expect.stringContaining('text/html')])
})

it('/livez answers while the process runs', async () => {
  const answer = await fetch(`${service.url}/livez`)
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json'])
  expect(await answer.json()).toEqual({ status: 'ok' })
})

it('/readyz lists the dependencies and whether each is available', async () => {
  const answer = await fetch(`${service.url}/readyz`)
  expect(answer.status).toBe(200)
  expect(await answer.json()).toEqual({
    status: 'ok',
    checks: { postgres: 'ok', clickhouse: 'ok', queue: 'ok', objects: 'ok' },
  })
})

it('/metrics has our metrics in the text format of Prometheus', async () => {
  const { client } = service
  const experimentKey = await client.createExperiment()
  const metrics = [1, 2, 3].map((step) => ({ metricName: 'loss', metricValue: 1, step }))
  await client.post('/write/experiment/metrics/batch', { experimentKey, metrics })

  const answer = await fetch(`${service.url}/metrics`)

  expect(answer.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  const text = await answer.text()
  expect(text).toContain('svc_rows_accepted_total{type="metrics"} 3\n')
  for (const line of text.split('\n').filter(Boolean))
    expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{.+\})? [-+\w.]+)$/)
})

it('/clientlib/isAlive/ver tells a version of the interface that clients accept', async () => {
  const answer = await fetch(`${service.url}/clientlib/isAlive/ver`)
  expect(answer.headers.get('content-type')).toBe('application/json')
  const { version, ...more } = (await answer.json()) as { version: string }
  expect(more).toEqual({})
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  expect(major * 1e6 + minor * 1e3 + patch).toBeGreaterThanOrEqual(1_002_078)
})

it('an api that shares its address with ingest documents the stream writes but does not serve them', async () => {
  const api = await openTestService({ roles: new Set(['api']) })
  try {
    const answer = await fetch(`${api.url}/openapi.json`)
    expect(Object.keys(((await answer.json()) as OpenApi).paths).toSorted()).toEqual(
      Object.keys(document.paths).toSorted(),
    )
    const written = await fetch(`${api.url}${prefix}/write/experiment/metric`, { method: 'POST' })
    expect(written.status).toBe(404)
  } finally {
    await api.close()
  }
})
