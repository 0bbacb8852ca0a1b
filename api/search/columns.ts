import type { RunColumn } from '../projects/run-columns.ts'
import type { Cell } from '../projects/run-order.ts'
import { attributes, type Field, listFields, type Query } from './query.ts'

/** The columns of runs that a query needs, and what a run has of a field of it, given what it has of these. */
export function createColumnsOf(query: Query) {
  const columns: RunColumn[] = []
  const places = new Map<string, number[]>()
  for (const field of listFields(query)) {
    places.set(
      JSON.stringify(field),
      toColumns(field).map((it) => columns.push(it) - 1),
    )
  }
  return {
    columns,
    valuesOf: (field: Field, cellAt: (place: number) => Cell): Cell[] =>
      (places.get(JSON.stringify(field)) ?? []).map((place) => {
        const cell = cellAt(place)
        // NaN and the infinities are text in a cell.
        return columns[place]?.source === 'metric' && cell !== null ? Number(cell) : cell
      }),
  }
}

function toColumns({ source, name, of }: Field): RunColumn[] {
  switch (source) {
    case 'attribute': {
      const attribute = attributes[name]
      return attribute ? [{ source: 'metadata', name: attribute.column }] : []
    }
    case 'metric':
      return [{ source: 'metric', name, context: undefined, of }]
    case 'parameter':
      return [{ source: 'parameter', name }]
    case 'other':
    case 'tag':
      return [{ source: 'other', name }]
    case 'any':
      return [
        { source: 'parameter', name },
        { source: 'other', name },
        { source: 'metric', name, context: undefined, of },
      ]
  }
}
