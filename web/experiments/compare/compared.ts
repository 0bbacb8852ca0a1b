/** The values of many runs as rows, one per parameter or metric. */

export type ComparedRun = {
  experimentKey: string
  name: string
  values: Map<string, string>
}

export type ComparedRow = {
  id: string
  kind: 'parameter' | 'metric'
  name: string
  values: (string | undefined)[]
  differs: boolean
}

export const toId = (kind: ComparedRow['kind'], name: string) => `${kind === 'metric' ? 'm' : 'p'}:${name}`

export function toRows(runs: ComparedRun[]): ComparedRow[] {
  const ids = new Set(runs.flatMap((it) => [...it.values.keys()]))
  return [...ids]
    .map((id): ComparedRow => {
      const values = runs.map((it) => it.values.get(id))
      const kind = id.startsWith('m:') ? 'metric' : 'parameter'
      return { id, kind, name: id.slice(2), values, differs: new Set(values).size > 1 }
    })
    .toSorted((a, b) => (a.kind === b.kind ? (a.name < b.name ? -1 : 1) : a.kind === 'parameter' ? -1 : 1))
}

/** The number that a text is; undefined when it is none. `NaN` and infinities are none either. */
export function toFinite(text: string | undefined): number | undefined {
  if (text === undefined || text.trim() === '') return undefined
  const number = Number(text)
  return Number.isFinite(number) ? number : undefined
}

/** By how much a value differs from the baseline: `+12.5%`; undefined where it does not, or has no meaning. */
export function toChange(text: string | undefined, baseline: string | undefined): string | undefined {
  const value = toFinite(text)
  const from = toFinite(baseline)
  if (value === undefined || from === undefined || from === 0 || value === from) return undefined
  const percent = ((value - from) / Math.abs(from)) * 100
  const size = Math.abs(percent)
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2
  return `${percent > 0 ? '+' : '−'}${size >= 100_000 ? size.toExponential(1) : size.toFixed(digits)}%`
}

/** Where each run lies on an axis, from 0 to 1: by number when all values are numbers, else by the order of the texts. */
export function toAxis(values: (string | undefined)[]) {
  const given = values.filter((it) => it !== undefined)
  const numbers = values.map(toFinite)
  const isNumeric = given.length > 0 && values.every((it, at) => it === undefined || numbers[at] !== undefined)
  if (!isNumeric) {
    const names = [...new Set(given)].toSorted()
    const place = (it: string) => (names.length < 2 ? 0.5 : names.indexOf(it) / (names.length - 1))
    return {
      isNumeric,
      places: values.map((it) => (it === undefined ? undefined : place(it))),
      ticks: names.map((text) => ({ text, place: place(text) })),
    }
  }
  const finite = numbers.filter((it) => it !== undefined)
  const least = Math.min(...finite)
  const most = Math.max(...finite)
  const place = (it: number) => (most === least ? 0.5 : (it - least) / (most - least))
  const ticks = most === least ? [least] : [least, (least + most) / 2, most]
  return {
    isNumeric,
    places: numbers.map((it) => (it === undefined ? undefined : place(it))),
    ticks: ticks.map((it) => ({ text: String(Number(it.toPrecision(3))), place: place(it) })),
  }
}
