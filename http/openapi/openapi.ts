import swagger from '@fastify/swagger'
import fastify, { type FastifyInstance, type FastifySchema } from 'fastify'
import { describeHttpErrors } from '../errors.ts'
import { prefix, type RouteDescription, toUrl, uploadTypes } from '../route.ts'
import { describeAnswers, toOperationId, toReadableSchemas } from './schemas.ts'

const description = `Writes and reads of svc.

Send the key as \`Authorization: <API key>\` (or \`Authorization: Bearer <API key>\`). Every answer of a write carries
\`msg\`, \`code\`, \`data\` and \`sdk_error_code\`; so does every error:

${describeHttpErrors()}

Bodies may be sent with \`Content-Encoding: gzip\`. Unknown fields are ignored and \`null\` means absent. Every ingest
write takes the header \`Idempotency-Key\`: a request repeated with the same key is stored once.

**Production monitoring** (\`/mpm/v2\`): an event is stored once for ever for its \`predictionId\`, model and kind, whoever sends
it again and however often, so it needs no \`Idempotency-Key\`; labels likewise. What is wrong is told with its place and field.

**Webhooks** tell HTTPS receivers of changes of the model registry: \`MODEL_VERSION_CREATED\`, \`MODEL_VERSION_DELETED\`,
\`MODEL_VERSION_STAGE_CHANGED\`, \`MODEL_UPDATED\`, \`MODEL_DELETED\`. A receiver is sent \`{workspaceName, registryModelName,
version, stages, event, addedStages, removedStages, registryModelId, registryModelItemId, experimentKey, experimentModelId,
userName, timestamp, restApiUrl}\`, at least once and in the order of the changes of each version, signed as
[Standard Webhooks](https://www.standardwebhooks.com) says (\`webhook-id\`, \`webhook-timestamp\`, \`webhook-signature\`) with
a secret that \`POST /webhooks/signing-secret\` tells. The same \`webhook-id\` may come again: answer 2xx and drop it. Any
other answer is followed by up to nine further attempts over 75 hours, later when \`Retry-After\` of a 429 or 503 says so; 410
disables the receiver at once.`

/** The page asks no other host, also when a button of it would: networks may be closed, and keys are typed into it. */
const ownHostOnly = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
].join('; ')

/**
 * OpenAPI 3.1 at `/openapi.json` and a page to read it at `/reference`, made from the schemas that check requests. Who
 * opens `/` is led there.
 */
export function addReference(app: FastifyInstance, { version, routes }: Described) {
  const schema = { hide: true }
  let document: Promise<unknown> | undefined
  app.get('/openapi.json', { schema }, async () => {
    document ??= describe({ version, routes })
    return await document
  })
  app.get('/', { schema }, async (_request, reply) => reply.redirect('/reference'))
  // Every browser asks for it; without an answer it reports a fault.
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

/** The document is made when it is first asked for: of a server that has the routes and answers nobody. */
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
      url: toUrl(it, it.atRoot ? '' : prefix),
      exposeHeadRoute: false,
      schema: toSchema(it),
      validatorCompiler: () => () => true,
      serializerCompiler: () => () => '',
      handler: async () => undefined,
    })
  }
  await app.ready()
  const document = app.swagger()
  await app.close()
  return document
}

function toSchema(it: RouteDescription): FastifySchema {
  return {
    operationId: toOperationId(it),
    // The path is what a reader looks for in the list; the sentence then says what it does.
    summary: it.path.slice(1),
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

/** The page is a server of its own, opened when somebody asks for it: it takes 25 MiB and a fifth of the time of a start. */
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
      // All of these would send what is shown here to the host of the page's makers.
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
