/**
 * A map that keeps what was used recently: at least `entriesMax`, at most twice as many. It holds two generations and drops
 * the older one when the younger is full, so that a look-up that hits the younger one is a look-up in a `Map` and no more
 * (a list in order of use is rearranged by every look-up: measured, five of them were a tenth of a small write).
 */
export function createLruCache<Value>(entriesMax: number) {
  let young = new Map<string, Value>()
  let old = new Map<string, Value>()

  function set(id: string, value: Value) {
    if (young.size >= entriesMax && !young.has(id)) {
      old = young
      young = new Map()
    }
    young.set(id, value)
  }

  /** Leaves its age as it is. */
  const peek = (id: string): Value | undefined => young.get(id) ?? old.get(id)

  return {
    set,
    peek,

    get(id: string): Value | undefined {
      const value = young.get(id)
      if (value !== undefined) return value
      const older = old.get(id)
      if (older !== undefined) set(id, older)
      return older
    },
  }
}
