import { randomUUID } from 'node:crypto'

export type Schema = {
  type?: string | string[]
  enum?: unknown[]
  properties?: Record<string, Schema>
  items?: Schema
  required?: string[]
}

type Options = {
  /** Values by the names of fields. */
  known: Record<string, string>
  /** The text of other fields; one of its own for each when it is absent. Optional fields have it too. */
  text?: string
}

/** A value that a schema allows, as far as one can tell from it. */
export function toValue(schema: Schema, name: string, options: Options): unknown {
  const { known, text } = options
  if (name in known && !schema.items && !schema.properties) return known[name]
  if (schema.properties) {
    const needed = Object.entries(schema.properties).filter(
      ([field]) => text !== undefined || schema.required?.includes(field) || field in known,
    )
    return Object.fromEntries(needed.map(([field, it]) => [field, toValue(it, field, options)]))
  }
  if (schema.items) {
    const one = name.replace(/s$/, '')
    return [toValue(schema.items, one in known ? one : name, options)]
  }
  if (text !== undefined && schema.enum) return schema.enum[0]
  const types = [schema.type].flat()
  if (types.includes('boolean')) return true
  if (types.includes('integer') || types.includes('number')) return 1
  return text ?? randomUUID().replaceAll('-', '')
}
