import type { FastifySchema } from 'fastify'
import { jsonSchemaTransform } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { RouteDescription } from '../route.ts'

/**
 * The schemas that check requests, as a reader of the reference wants to see them: one plain type for each field, answers
 * with their envelope, and nothing that is only true of this program.
 */

const refused = z
  .object({
    msg: z.string().describe('what to do about it'),
    code: z.int().describe('the HTTP status'),
    data: z.null(),
    sdk_error_code: z.int().describe('which refusal it is: see the table above'),
  })
  .describe('Refused: nothing of the request was kept')

/** The answers of a route: what it says of itself, with the envelope around it, and what a refusal looks like. */
export function describeAnswers({ answer, shape }: RouteDescription): Record<string, unknown> {
  if (shape === 'empty') return { 204: answer.describe('Done'), default: refused }
  if (shape === 'bytes' || shape === 'text') {
    const type = shape === 'text' ? 'text/plain' : 'application/octet-stream'
    return { 200: { description: 'Done', content: { [type]: { schema: answer } } }, default: refused }
  }
  return { 200: (shape === 'envelope' ? inEnvelope(answer) : answer).describe('Done'), default: refused }
}

function inEnvelope(answer: z.ZodType): z.ZodType {
  if (!(answer instanceof z.ZodObject)) return answer
  const envelope = { code: z.literal(200), data: z.null(), sdk_error_code: z.literal(0) }
  return z.object({ msg: z.string(), ...answer.shape, ...envelope })
}

/** A name for the operation, unique and stable, for those who generate clients: `post_write_experiment_metric`. */
export function toOperationId({ method, path }: RouteDescription): string {
  const words = `${method}${path}`.replace(/(?<=[a-z])(?=[A-Z])/g, '_').toLowerCase()
  return words.replace(/[^a-z0-9]+/g, '_').replace(/_$/, '')
}

/** Turns a route's schemas into JSON Schema, then into a form that reads well. */
export const toReadableSchemas: typeof jsonSchemaTransform = (document) => {
  const { schema, url } = jsonSchemaTransform(document)
  const { body, querystring, params, response } = schema as FastifySchema
  return {
    url,
    schema: {
      ...schema,
      ...(body !== undefined && { body: tidy(body as JsonSchema) }),
      ...(querystring !== undefined && { querystring: tidyQuery(querystring as JsonSchema) }),
      ...(params !== undefined && { params: tidyQuery(params as JsonSchema) }),
      ...(response !== undefined && { response: tidyEach(response as Record<string, JsonSchema>, tidy) }),
    },
  }
}

type JsonSchema = {
  type?: string | string[]
  anyOf?: JsonSchema[]
  properties?: Record<string, JsonSchema>
  items?: JsonSchema
  [keyword: string]: unknown
}

function tidy(schema: JsonSchema): JsonSchema {
  const { anyOf, properties, items, ...rest } = schema
  const tidied: JsonSchema = {
    ...rest,
    ...(properties && { properties: tidyEach(properties, tidy) }),
    ...(items && { items: tidy(items) }),
  }
  if (tidied.additionalProperties === false) delete tidied.additionalProperties
  if (tidied.minLength === 0) delete tidied.minLength
  // "Safe in a JavaScript number" is no limit of the interface.
  if (tidied.minimum === Number.MIN_SAFE_INTEGER) delete tidied.minimum
  if (tidied.maximum === Number.MAX_SAFE_INTEGER) delete tidied.maximum
  // A type that a field gives itself stands for the kinds of value that its check takes apart.
  if (!anyOf || tidied.type !== undefined) return tidied
  return joinNull({ ...tidied, anyOf: anyOf.map(tidy) })
}

/** `anyOf: [X, null]` as X with one more type. */
function joinNull({ anyOf = [], ...outer }: JsonSchema): JsonSchema {
  const [only, ...more] = anyOf.filter((it) => it.type !== 'null')
  if (only?.type === undefined || more.length > 0 || anyOf.length !== 2) return { ...outer, anyOf }
  return { ...only, ...outer, type: [only.type, 'null'].flat() }
}

/** An address is text, and cannot say `null`: a field has the one type that it is read as, and may be absent. */
function tidyQuery(query: JsonSchema): JsonSchema {
  const tidied = tidy(query)
  return { ...tidied, properties: tidyEach(tidied.properties ?? {}, withOneType) }
}

function withOneType(field: JsonSchema): JsonSchema {
  if (!Array.isArray(field.type)) return field
  return { ...field, type: field.type.find((it) => it !== 'null') ?? 'string' }
}

function tidyEach(schemas: Record<string, JsonSchema>, each: (schema: JsonSchema) => JsonSchema) {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, each(schema)]))
}
