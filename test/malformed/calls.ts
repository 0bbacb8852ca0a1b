/**
 * Every call of the service as its own reference page (`/openapi.json`) tells it: a route that is added is met here
 * without a word, and so is each of its fields, those in lists of objects included.
 */
export type Call = {
  method: string
  path: string
  /** Right bodies as JSON text, each with `hole` in the place of one field. */
  bodies: string[]
  /** Right queries, each with `hole` in the place of one field. */
  queries: string[]
}

/** Stands where a wrong value goes. */
export const hole = '@@'

type Schema = {
  type?: string | string[]
  properties?: Record<string, Schema>
  items?: Schema
  required?: string[]
}

type Operation = {
  requestBody?: { content: { 'application/json'?: { schema: Schema } } }
  parameters?: { name: string; in: string; schema: Schema }[]
}

type Document = { paths: Record<string, Record<string, Operation>> }

/** What a field must be for the call to come past its first checks: an experiment that is there, and so on. */
export type Known = Record<string, string>

/** @param knownFor the known fields of a call, by its method and path */
export function readCalls(document: unknown, knownFor: (method: string) => Known): Call[] {
  const { paths } = document as Document
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([name, operation]) => {
      const method = name.toUpperCase()
      return { method, path, ...toTemplates(operation, knownFor(method)) }
    }),
  )
}

function toTemplates({ requestBody, parameters = [] }: Operation, known: Known): Pick<Call, 'bodies' | 'queries'> {
  const schema = requestBody?.content['application/json']?.schema
  const bodies = schema ? [hole, ...toHoles(schema, '', known).map((it) => JSON.stringify(it))] : []
  const query = parameters.filter((it) => it.in === 'query')
  const right = (name: string, field: Schema) => `${name}=${encodeURIComponent(String(toRight(field, name, known)))}`
  const queries = query.map((wrong) =>
    query.map((it) => (it === wrong ? `${it.name}=${hole}` : right(it.name, it.schema))).join('&'),
  )
  return { bodies: bodies.map((it) => it.replace(`"${hole}"`, hole)), queries }
}

/** Right values of a schema, each with a hole at another place. */
function toHoles(schema: Schema, name: string, known: Known): unknown[] {
  if (schema.items) return [hole, ...toHoles(schema.items, name, known).map((it) => [it])]
  if (!schema.properties) return [hole]
  const whole = toRight(schema, name, known) as object
  const fields = Object.entries(schema.properties)
  return fields.flatMap(([field, inner]) => toHoles(inner, field, known).map((it) => ({ ...whole, [field]: it })))
}

function toRight(schema: Schema, name: string, known: Known): unknown {
  if (name in known) return known[name]
  if (schema.properties) {
    const fields = Object.entries(schema.properties)
    return Object.fromEntries(fields.map(([field, inner]) => [field, toRight(inner, field, known)]))
  }
  if (schema.items) return [toRight(schema.items, name, known)]
  const types = [schema.type].flat()
  if (types.includes('boolean')) return true
  if (types.includes('integer') || types.includes('number')) return 1
  return 'x'
}
