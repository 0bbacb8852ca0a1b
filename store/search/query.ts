/** A question about runs, as `parse.ts` reads it from text. */
export type Query =
  | { is: 'and' | 'or'; of: Query[] }
  | { is: 'not'; of: Query }
  /** A part of the name, the key or a tag, ignoring case. */
  | { is: 'word'; text: string }
  | { is: 'has'; field: Field }
  | Test

/** What a field must be. Negated it must have a value, and none that passes. */
export type Test = { is: 'test'; field: Field; operator: Operator; isNegated: boolean; values: Value[] }

export type Operator = (typeof operators)[number]
const operators = ['=', '<', '<=', '>', '>=', '~', 'like', 'ilike', 'in'] as const

/** `any`: a parameter, an other or a metric of this name. */
export type Field = { source: Source; name: string; of: Part }
export type Source = 'attribute' | 'metric' | 'parameter' | 'other' | 'tag' | 'any'
export type Part = (typeof parts)[number]
export const parts = ['last', 'min', 'max'] as const

/** What a field is compared with. `text` is as it was written. */
export type Value = { text: string } & (
  | { is: 'text' }
  | { is: 'number'; number: number }
  | { is: 'flag'; flag: boolean }
  /** A length, or with a time so long ago. */
  | { is: 'duration'; ms: number }
  /** A time of some precision: from `fromMs` to before `toMs`. */
  | { is: 'time'; fromMs: number; toMs: number }
  | { is: 'pattern'; matches(actual: string): boolean }
)

/** The words before the dot of a field. */
export const sourceWords = new Map<string, Source>([
  ['metric', 'metric'],
  ['metrics', 'metric'],
  ['param', 'parameter'],
  ['params', 'parameter'],
  ['parameter', 'parameter'],
  ['parameters', 'parameter'],
  ['other', 'other'],
  ['others', 'other'],
  ['tag', 'tag'],
  ['tags', 'tag'],
  ['attribute', 'attribute'],
  ['attributes', 'attribute'],
])

type AttributeType = 'text' | 'state' | 'time' | 'duration' | 'flag' | 'tags'
type Attribute = { column: AttributeColumn; type: AttributeType; aliases: string[] }
type AttributeColumn =
  | ('name' | 'key' | 'state' | 'userName' | 'filePath' | 'tags')
  | ('startTime' | 'endTime' | 'lastActive' | 'duration' | 'archived' | 'hasCrashed')

/** What every run has, by the name in queries. The aliases are those of MLflow and of the HTTP interface. */
export const attributes: Record<string, Attribute> = {
  name: { column: 'name', type: 'text', aliases: ['run_name', 'experimentName'] },
  key: { column: 'key', type: 'text', aliases: ['run_id', 'experimentKey'] },
  state: { column: 'state', type: 'state', aliases: ['status'] },
  started: { column: 'startTime', type: 'time', aliases: ['start_time', 'created', 'startTime'] },
  ended: { column: 'endTime', type: 'time', aliases: ['end_time', 'endTime'] },
  active: { column: 'lastActive', type: 'time', aliases: ['lastActive'] },
  duration: { column: 'duration', type: 'duration', aliases: [] },
  user: { column: 'userName', type: 'text', aliases: ['user_id', 'userName'] },
  tag: { column: 'tags', type: 'tags', aliases: ['tags'] },
  file: { column: 'filePath', type: 'text', aliases: ['filePath'] },
  crashed: { column: 'hasCrashed', type: 'flag', aliases: ['hasCrashed'] },
  archived: { column: 'archived', type: 'flag', aliases: [] },
}

const attributeNames = new Map(
  Object.entries(attributes).flatMap(([name, { aliases }]) => [name, ...aliases].map((it) => [it.toLowerCase(), name])),
)

/** The name that `attributes` has for what somebody wrote. */
export const toAttributeName = (written: string): string | undefined => attributeNames.get(written.toLowerCase())

/** Where words are looked for. */
export const fieldsOfWords: Field[] = ['name', 'key', 'tag'].map((name) => ({ source: 'attribute', name, of: 'last' }))
