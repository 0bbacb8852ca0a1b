import type { Column, ColumnType, KnownColumn } from '../api/runs.ts'

/**
 * A column as text, for the URL: `startTime`, `p:lr`, `o:note`, `m:loss`, `m.min:loss`, `m.last.train:loss`. The name is
 * last, so it may hold anything.
 */
export type ColumnId = string

const letters = { parameter: 'p', other: 'o' } as const

export function toColumnId(column: Column): ColumnId {
  if (column.source === 'metadata') return column.name
  if (column.source !== 'metric') return `${letters[column.source]}:${column.name}`
  const { name, of = 'last', context } = column
  if (context) return `m.${of}.${encodeURIComponent(context)}:${name}`
  return of === 'last' ? `m:${name}` : `m.${of}:${name}`
}

export function parseColumnId(id: ColumnId): Column {
  const [, kind, of = 'last', context, name = ''] = /^([pom])(?:\.(last|min|max))?(?:\.([^:]*))?:(.*)$/s.exec(id) ?? []
  if (kind === 'p') return { source: 'parameter', name }
  if (kind === 'o') return { source: 'other', name }
  if (kind !== 'm') return { source: 'metadata', name: id }
  return { source: 'metric', name, of: of as 'last', ...(context && { context: decodeURIComponent(context) }) }
}

/** A column as the table draws it. */
export type TableColumn = { id: ColumnId; type: ColumnType; width: number; isPinned: boolean }

/** `left`: where a pinned one sticks. */
export type LaidColumn = TableColumn & { left: number | undefined }

/** What the head of a column says. */
export function toLabel(column: Column): string {
  if (column.source === 'metadata') return metadata[column.name]?.label ?? column.name
  if (column.source !== 'metric') return column.name
  return column.context ? `${column.context}/${column.name}` : column.name
}

/** What stands small beside the label. */
export function toHint(column: Column): string | undefined {
  return column.source === 'metric' && column.of && column.of !== 'last' ? column.of : undefined
}

export const sourceNames: Record<Column['source'], string> = {
  metadata: 'Run',
  metric: 'Metrics',
  parameter: 'Parameters',
  other: 'Others',
}

const metadata: Record<string, { label: string; type: ColumnType; width: number }> = {
  name: { label: 'Name', type: 'text', width: 240 },
  state: { label: 'State', type: 'text', width: 108 },
  startTime: { label: 'Started', type: 'time', width: 116 },
  endTime: { label: 'Ended', type: 'time', width: 116 },
  duration: { label: 'Duration', type: 'duration', width: 108 },
  userName: { label: 'User', type: 'text', width: 120 },
  tags: { label: 'Tags', type: 'tags', width: 180 },
  key: { label: 'Key', type: 'text', width: 160 },
  archived: { label: 'Archived', type: 'boolean', width: 92 },
}

export function toType(id: ColumnId, known: Map<ColumnId, KnownColumn>): ColumnType {
  const column = parseColumnId(id)
  if (column.source === 'metric') return 'number'
  return metadata[id]?.type ?? known.get(id)?.type ?? 'text'
}

export const widthMin = 64
export const widthMax = 800

export function toWidth(id: ColumnId, type: ColumnType): number {
  const own = metadata[id]?.width
  if (own !== undefined) return own
  // The head has the label, a sign of the order and the button of its menu.
  const column = parseColumnId(id)
  const head = (toLabel(column).length + (toHint(column)?.length ?? 0)) * 7.5 + 44
  return Math.round(Math.min(Math.max(head, type === 'text' ? 120 : 96), 220))
}

/** Columns of a project nobody has chosen columns for: how each run goes, then its first metrics and parameters. */
export function toDefaultColumns(known: KnownColumn[]): ColumnId[] {
  const metrics = known.filter((it) => it.source === 'metric' && !it.name.startsWith('sys.')).map(toColumnId)
  const parameters = known.filter((it) => it.source === 'parameter').map(toColumnId)
  return ['state', 'startTime', 'duration', 'tags', ...unique(metrics).slice(0, 4), ...parameters.slice(0, 4)]
}

const unique = <It>(all: It[]) => [...new Set(all)]
