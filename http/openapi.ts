import swagger from '@fastify/swagger'
import reference from '@scalar/fastify-api-reference'
import type { FastifyInstance } from 'fastify'
import { jsonSchemaTransform } from 'fastify-type-provider-zod'
import { describeRefusals } from './errors.ts'

const description = `Writes and reads of svc.

Send the key as \`Authorization: <API key>\` (or \`Authorization: Bearer <API key>\`). Every answer of a write carries
\`msg\`, \`code\`, \`data\` and \`sdk_error_code\`; so does every error:

${describeRefusals()}

Bodies may be sent with \`Content-Encoding: gzip\`. Unknown fields are ignored and \`null\` means absent. Every ingest
write takes the header \`Idempotency-Key\`: a request repeated with the same key is stored once.`

/** OpenAPI 3.1 at \`/openapi.json\` and a page to read it at \`/reference\`, made from the schemas that check requests. */
export async function addReference(app: FastifyInstance, { version }: { version: string }) {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'svc', version, description },
      components: {
        securitySchemes: { apiKey: { type: 'apiKey', in: 'header', name: 'Authorization' } },
      },
    },
    transform: jsonSchemaTransform,
  })
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger())
  await app.register(reference, {
    routePrefix: '/reference',
    configuration: { title: 'svc reference', url: '/openapi.json', withDefaultFonts: false, telemetry: false },
  })
}
