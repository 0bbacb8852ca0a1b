import type { LineageEdge, LineageNode } from '../api/artifacts/lineage.ts'

/** One node, or several that came from the same and led to the same. */
export type Placed = { id: string; members: LineageNode[]; column: number; row: number }
export type Layout = { places: Placed[]; edges: { from: Placed; to: Placed }[]; columns: number; rows: number }

/** From so many on, nodes of one kind with the same neighbours are drawn as one until they are opened. */
const groupLeast = 4
const sweeps = 6

/**
 * Puts nodes into columns, each to the right of all that it came from, and orders them so that few lines cross.
 *
 * @param opened the groups whose members stand by themselves
 */
export function toLayout(
  nodes: LineageNode[],
  edges: LineageEdge[],
  start: string,
  opened: ReadonlySet<string>,
): Layout {
  const known = new Set(nodes.map((it) => it.node))
  const given = edges.filter((it) => known.has(it.from) && known.has(it.to) && it.from !== it.to)
  const places = toGroups(nodes, given, start, opened)
  const placeOf = new Map(places.flatMap((it) => it.members.map((member) => [member.node, it] as const)))
  const pairs = new Map<string, { from: Placed; to: Placed }>()
  for (const it of given) {
    const [from, to] = [placeOf.get(it.from) as Placed, placeOf.get(it.to) as Placed]
    if (from !== to) pairs.set(`${from.id} ${to.id}`, { from, to })
  }
  const drawn = [...pairs.values()]
  setColumns(places, drawn)
  const rows = setRows(places, drawn)
  return { places, edges: drawn, columns: Math.max(0, ...places.map((it) => it.column + 1)), rows }
}

function toGroups(nodes: LineageNode[], edges: LineageEdge[], start: string, opened: ReadonlySet<string>): Placed[] {
  const from = Map.groupBy(edges, (it) => it.to)
  const to = Map.groupBy(edges, (it) => it.from)
  const alike = Map.groupBy(nodes, (it) => {
    if (it.node === start) return it.node
    const before = (from.get(it.node) ?? []).map((edge) => edge.from).toSorted()
    const after = (to.get(it.node) ?? []).map((edge) => edge.to).toSorted()
    return JSON.stringify([it.kind, before, after])
  })
  return [...alike.values()].flatMap((members) => {
    const id = `group ${members[0]?.node}`
    if (members.length < groupLeast || opened.has(id)) {
      return members.map((it) => ({ id: it.node, members: [it], column: 0, row: 0 }))
    }
    return [{ id, members, column: 0, row: 0 }]
  })
}

/** The longest way to each from those that came from nothing. What a circle closes counts not. */
function setColumns(places: Placed[], edges: { from: Placed; to: Placed }[]) {
  const after = Map.groupBy(edges, (it) => it.from)
  const left = new Map(places.map((it) => [it, 0]))
  for (const { to } of edges) left.set(to, (left.get(to) ?? 0) + 1)
  const waiting = new Set(places)
  const ready = places.filter((it) => left.get(it) === 0)
  while (waiting.size > 0) {
    const place = ready.shift() ?? (waiting.values().next().value as Placed)
    if (!waiting.delete(place)) continue
    for (const { to } of after.get(place) ?? []) {
      if (!waiting.has(to)) continue
      to.column = Math.max(to.column, place.column + 1)
      const rest = (left.get(to) ?? 1) - 1
      left.set(to, rest)
      if (rest === 0) ready.push(to)
    }
  }
}

/** Each beside the middle of its neighbours, by turns from the left and from the right. */
function setRows(places: Placed[], edges: { from: Placed; to: Placed }[]): number {
  const columns = [...Map.groupBy(places, (it) => it.column)].toSorted(([a], [b]) => a - b).map(([, it]) => it)
  for (const column of columns) number(column)
  const before = Map.groupBy(edges, (it) => it.to)
  const after = Map.groupBy(edges, (it) => it.from)
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const isForward = sweep % 2 === 0
    for (const column of isForward ? columns : columns.toReversed()) {
      const middles = new Map(
        column.map((it) => {
          const others = isForward
            ? (before.get(it) ?? []).map((edge) => edge.from.row)
            : (after.get(it) ?? []).map((edge) => edge.to.row)
          return [it, others.length === 0 ? it.row : others.reduce((a, b) => a + b, 0) / others.length]
        }),
      )
      column.sort((a, b) => (middles.get(a) as number) - (middles.get(b) as number) || a.row - b.row)
      number(column)
    }
  }
  const rows = Math.max(1, ...columns.map((it) => it.length))
  // Short columns stand in the middle.
  for (const column of columns) for (const it of column) it.row += (rows - column.length) / 2
  return rows
}

function number(column: Placed[]) {
  for (const [row, it] of column.entries()) it.row = row
}
