import swagger from '@fastify/swagger'
import fastify, { type FastifyInstance, type FastifySchema } from 'fastify'
import { arrowType } from '../body/arrow.ts'
import { describeHttpErrors } from '../errors.ts'
import { prefix, type RouteDescription, toUrl, uploadTypes } from '../route.ts'
import { describeAnswers, toOperationId, toReadableSchemas } from './schemas.ts'

const description = `The HTTP interface of svc.

Send the key as \`Authorization: <API key>\` or \`Authorization: Bearer <API key>\`. Every answer to a write contains
\`msg\`, \`code\`, \`data\` and \`sdk_error_code\`, and so does every error:

${describeHttpErrors()}

Bodies may be compressed with \`Content-Encoding: gzip\`. Unknown fields are ignored, and \`null\` means absent. Every ingest
write accepts the header \`Idempotency-Key\`: requests with the same key are stored once.

**Production monitoring** (\`/mpm/v2\`): an event is stored once for its \`predictionId\`, model and kind, however often it is
sent, so it needs no \`Idempotency-Key\`; the same holds for labels. Errors name the index and the field of the event.

**Webhooks** notify HTTPS receivers of changes in the model registry: \`MODEL_VERSION_CREATED\`, \`MODEL_VERSION_DELETED\`,
\`MODEL_VERSION_STAGE_CHANGED\`, \`MODEL_VERSION_STATUS_CHANGED\` (with \`status\` and \`previousStatus\`), \`MODEL_UPDATED\`,
\`MODEL_DELETED\`. A receiver gets \`{workspaceName, registryModelName, version, stages, event, addedStages, removedStages,
registryModelId, registryModelItemId, experimentKey, experimentModelId, userName, timestamp, restApiUrl}\` at least once, in
the order of the changes of each version. Requests are signed by [Standard Webhooks](https://www.standardwebhooks.com)
(\`webhook-id\`, \`webhook-timestamp\`, \`webhook-signature\`) with the secret from \`POST /webhooks/signing-secret\`. The same
\`webhook-id\` may arrive again: answer 2xx and ignore it. After any other answer the service retries up to nine times over 75
hours, and waits longer when a 429 or 503 has a \`Retry-After\`. An answer of 410 disables the receiver at once.`

/** The page must contact no other host: networks may be closed, and people type API keys into it. */
const ownHostOnly = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
].join('; ')

/**
 * Adds OpenAPI 3.1 at `/openapi.json` and its reference page at `/reference`, made from the schemas that check
 * requests.
 */
export function addReference(app: FastifyInstance, { version, routes }: Described) {
  const schema = { hide: true }
  let document: Promise<unknown> | undefined
  app.get('/openapi.json', { schema }, async () => {
    document ??= describe({ version, routes })
    return await document
  })
  // Every browser requests it, and reports an error when it is missing.
  app.get('/favicon.ico', { schema }, async (_request, reply) => reply.code(204).send())
  let page: Promise<FastifyInstance> | undefined
  for (const url of ['/reference', '/reference/*']) {
    app.get(url, { schema }, async (request, reply) => {
      page ??= openPage().catch((error) => {
        page = undefined
        throw error
      })
      const { routing } = await page
      for (const [name, value] of Object.entries(reply.getHeaders())) if (value) reply.raw.setHeader(name, value)
      reply.hijack()
      routing(request.raw, reply.raw)
    })
  }
  app.addHook('onClose', async () => await (await page)?.close())
}

type Described = { version: string; routes: RouteDescription[] }

/** Builds the document on its first request, from a server that has the routes but does not listen. */
async function describe({ version, routes }: Described): Promise<unknown> {
  const app = fastify()
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'svc', version, description },
      servers: [{ url: '/' }],
      components: {
        securitySchemes: { apiKey: { type: 'apiKey', in: 'header', name: 'Authorization' } },
      },
    },
    transform: toReadableSchemas,
  })
  for (const it of routes) {
    app.route({
      method: it.method,
      // The document has no rest of a path: it is a parameter.
      url: toUrl({ ...it, path: it.path.replace('*}', '}') }, it.atRoot ? '' : prefix),
      exposeHeadRoute: false,
      schema: toSchema(it),
      validatorCompiler: () => () => true,
      serializerCompiler: () => () => '',
      handler: async () => undefined,
    })
  }
  await app.ready()
  const document = app.swagger() as Document
  await app.close()
  for (const it of routes.filter((it) => it.takesArrow)) {
    const content = document.paths?.[prefix + it.path]?.[it.method.toLowerCase()]?.requestBody?.content
    if (content) content[arrowType] = { schema: { type: 'string', format: 'binary' } }
  }
  return document
}

type Document = { paths?: Record<string, Record<string, { requestBody?: { content: Record<string, unknown> } }>> }

function toSchema(it: RouteDescription): FastifySchema {
  return {
    operationId: toOperationId(it),
    // Readers look for the path in the list; the description then says what it does.
    summary: it.path.slice(1).replace('*}', '}'),
    description: it.summary,
    tags: [it.topic],
    ...(it.body && { body: it.body }),
    ...(it.upload && { body: it.upload, consumes: uploadTypes }),
    ...(it.query && { querystring: it.query }),
    ...(it.params && { params: it.params }),
    response: describeAnswers(it),
    ...(it.permission !== 'anyone' && { security: [{ apiKey: [] }] }),
  }
}

/** The page is a server of its own, opened on its first request: it takes 25 MiB and a fifth of the time of a start. */
async function openPage(): Promise<FastifyInstance> {
  const { default: reference } = await import('@scalar/fastify-api-reference')
  const page = fastify()
  await page.register(reference, {
    routePrefix: '/reference',
    hooks: {
      onRequest: (_request, reply, done) => {
        reply.header('content-security-policy', ownHostOnly)
        done()
      },
    },
    configuration: {
      pageTitle: 'svc reference',
      url: '/openapi.json',
      authentication: { preferredSecurityScheme: 'apiKey' },
      withDefaultFonts: false,
      // Each of these would send what the page shows to its vendor.
      telemetry: false,
      agent: { disabled: true },
      mcp: { disabled: true },
      showDeveloperTools: 'never',
      hideClientButton: true,
    },
  })
  await page.ready()
  return page
}
