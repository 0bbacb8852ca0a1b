/**
 * Every call that `/openapi.json` describes. New routes and fields, also those inside lists, are covered automatically.
 */
export type Call = {
  method: string
  path: string
  /** Valid bodies as JSON text, each with `hole` in place of one field. */
  bodies: string[]
  /** Valid queries, each with `hole` in place of one field. */
  queries: string[]
}

/** Placeholder for a wrong value. */
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

/** Values of fields that pass the first checks, such as the key of an existing experiment. */
export type Known = Record<string, string>

/** @param knownFor the known fields of a call, by its method */
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

/** Valid values of a schema, each with the hole at another place. */
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
