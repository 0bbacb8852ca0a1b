/** The values of a statement, which its text names `$1`, `$2`, ... */
export type Parameters = ReturnType<typeof createParameters>

/** @param first values that the text names itself, from `$1` on */
export function createParameters(first: unknown[] = []) {
  const values = [...first]
  const places = new Map<unknown, number>()
  return {
    values,

    /** Returns the name of a value, which may be sent once for many places. */
    bind(value: string | number | bigint | boolean | null, type: 'text' | 'bigint' | 'float8' | 'boolean'): string {
      const key = `${type} ${typeof value} ${value}`
      const place = places.get(key) ?? values.push(value)
      places.set(key, place)
      return `$${place}::${type}`
    },

    /** Returns the name of a list, given as Postgres writes one: `{1,2}`. */
    bindList: (list: string, type: 'bigint' | 'float8') => `$${values.push(list)}::${type}[]`,
  }
}
