import type { FastifySchema } from 'fastify'
import { jsonSchemaTransform } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { RouteDescription } from '../route.ts'

/**
 * Turns the schemas that check requests into readable documentation: one plain type for each field, answers with their
 * envelope, and no details of the implementation.
 */

const errorAnswer = z
  .object({
    msg: z.string().describe('what to do about it'),
    code: z.int().describe('the HTTP status'),
    data: z.null(),
    sdk_error_code: z.int().describe('the kind of error: see the table above'),
  })
  .describe('Error: nothing of the request was stored')

/** The answers of a route: its own schema in the envelope, and the error. */
export function describeAnswers({ answer, shape }: RouteDescription): Record<string, unknown> {
  if (shape === 'empty') return { 204: answer.describe('Done'), default: errorAnswer }
  if (shape === 'bytes' || shape === 'text') {
    const type = shape === 'text' ? 'text/plain' : 'application/octet-stream'
    return { 200: { description: 'Done', content: { [type]: { schema: answer } } }, default: errorAnswer }
  }
  return { 200: (shape === 'envelope' ? inEnvelope(answer) : answer).describe('Done'), default: errorAnswer }
}

function inEnvelope(answer: z.ZodType): z.ZodType {
  if (!(answer instanceof z.ZodObject)) return answer
  const envelope = { code: z.literal(200), data: z.null(), sdk_error_code: z.literal(0) }
  return z.object({ msg: z.string(), ...answer.shape, ...envelope })
}

/** A unique and stable name of the operation for generated clients: `post_write_experiment_metric`. */
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
  // The range of safe JavaScript integers is no limit of the interface.
  if (tidied.minimum === Number.MIN_SAFE_INTEGER) delete tidied.minimum
  if (tidied.maximum === Number.MAX_SAFE_INTEGER) delete tidied.maximum
  // A type that the field declares itself replaces the alternatives of its schema.
  if (!anyOf || tidied.type !== undefined) return tidied
  return joinNull({ ...tidied, anyOf: anyOf.map(tidy) })
}

/** Turns `anyOf: [X, null]` into X with one more type. */
function joinNull({ anyOf = [], ...outer }: JsonSchema): JsonSchema {
  const [only, ...more] = anyOf.filter((it) => it.type !== 'null')
  if (only?.type === undefined || more.length > 0 || anyOf.length !== 2) return { ...outer, anyOf }
  return { ...only, ...outer, type: [only.type, 'null'].flat() }
}

/** A query is text and has no `null`: each field gets the one type that it is read as, and may be absent. */
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
