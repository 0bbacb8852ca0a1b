import { checkFields, object, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Criterion, operatorsDescription, toCriterion } from './operators.ts'

/**
 * The predicates of a project query, parsed into a condition on experiments. A Python client sends a list with an entry for
 * each source, `{source, query: {condition, rules: [{field, type, operator, value}]}}`; others send plain rules with the
 * source in the column name, or trees of groups. A request may mix them.
 */
export type Condition = Group | Rule
type Group = { isAnd: boolean; isNegated: boolean; conditions: Condition[] }
export type Rule = { column: Column; criterion: Criterion }

/** A value of an experiment that rules test. */
export type Column = { source: Source; name: string }
type Source = (typeof sources)[number]
const sources = ['metadata', 'log_other', 'params', 'metrics', 'tag'] as const

const rulesMax = 100
const levelsMax = 10
const nameCharactersMax = 2_001

/** For the reference page. */
export const predicatesDescription =
  'One condition, or a list of conditions that must all hold; absent: all experiments. A condition is a rule ' +
  '`{column: "<name>--<source>", operator, value, type}` or `{source, field, operator, value, type}`; a group ' +
  '`{condition: "AND" or "OR", rules: [conditions], not}`; or `{source, query: group}`, where the source applies to all ' +
  'rules of the group. Sources are metadata (the fields of an experiment’s metadata), log_other, params, metrics (the ' +
  'current value, by its summary name) and tag (any of the tags; without a value, `field` is the tag). ' +
  `Operators: ${operatorsDescription}. The type (string, boolean, double, timenumber, datetime) selects the comparison; ` +
  'without it, two numbers are compared as numbers and other values as text. A missing value is null and matches no ' +
  `other operator. For tags, "not" means that no tag matches. Up to ${rulesMax} rules, ${levelsMax} levels.`

/**
 * @param field the name of the field in the request
 * @throws HttpError `badRequest` that names the field, such as `predicates[2].operator`
 */
export function parsePredicates(predicates: unknown, field: 'predicates' | 'rulesTree'): Condition {
  let rules = 0

  function toCondition(given: unknown, at: string, source: Source | undefined, level: number): Condition {
    if (given == null) throw new HttpError('badRequest', `${at}: is missing`)
    if (typeof given !== 'object' || Array.isArray(given))
      throw new HttpError('badRequest', `${at}: expected an object`)
    if (level > levelsMax) throw new HttpError('badRequest', `${at}: must be nested ${levelsMax} levels deep or less`)
    const fields = given as Record<string, unknown>
    const own = fields.source == null ? source : toSource(fields.source, `${at}.source`)
    if (fields.query != null) return toCondition(fields.query, `${at}.query`, own, level + 1)
    if (fields.rules != null) return toGroup(fields, at, own, level)
    if (++rules > rulesMax) throw new HttpError('badRequest', `${field}: must have ${rulesMax} rules or fewer`)
    return toRule(fields, at, own)
  }

  function toGroup(fields: Record<string, unknown>, at: string, source: Source | undefined, level: number): Group {
    const condition = fields.condition ?? 'AND'
    const word = typeof condition === 'string' ? condition.toUpperCase() : ''
    if (word !== 'AND' && word !== 'OR') throw new HttpError('badRequest', `${at}.condition: expected AND or OR`)
    if (fields.not != null && typeof fields.not !== 'boolean') {
      throw new HttpError('badRequest', `${at}.not: expected true or false`)
    }
    const conditions = toConditions(fields.rules, `${at}.rules`, source, level + 1)
    return { isAnd: word === 'AND', isNegated: fields.not === true, conditions }
  }

  function toConditions(given: unknown, at: string, source: Source | undefined, level: number): Condition[] {
    if (!Array.isArray(given)) throw new HttpError('badRequest', `${at}: expected a list`)
    if (given.length > rulesMax) throw new HttpError('badRequest', `${at}: must have ${rulesMax} entries or fewer`)
    return given.map((it, index) => toCondition(it, `${at}[${index}]`, source, level))
  }

  if (predicates == null) return { isAnd: true, isNegated: false, conditions: [] }
  if (typeof predicates !== 'object') throw new HttpError('badRequest', `${field}: expected a list or an object`)
  if (!Array.isArray(predicates)) return toCondition(predicates, field, undefined, 1)
  return { isAnd: true, isNegated: false, conditions: toConditions(predicates, field, undefined, 1) }
}

function toRule(fields: Record<string, unknown>, at: string, source: Source | undefined): Rule {
  const column = toColumn(fields, at, source)
  const { operator, type } = fields
  const value = fields.value ?? (column.source === 'tag' ? column.name : undefined)
  return { column, criterion: toCriterion({ operator, type, value }, at) }
}

function toColumn(fields: Record<string, unknown>, at: string, source: Source | undefined): Column {
  const field = fields.column != null ? 'column' : fields.field == null && fields.id != null ? 'id' : 'field'
  const name = readName(fields[field], `${at}.${field}`)
  if (source !== undefined && field !== 'column') return { source, name }
  const split = name.lastIndexOf('--')
  const suffix = name.slice(split + 2)
  if (split > 0 && isSource(suffix)) return { source: suffix, name: name.slice(0, split) }
  if (source !== undefined) return { source, name }
  throw new HttpError('badRequest', `${at}.source: is missing; send it, or "<name>--<source>" as the column`)
}

function readName(given: unknown, at: string): string {
  return checkFields(object({ [at]: text(nameCharactersMax, 1) }), { [at]: given })[at] as string
}

const isSource = (given: string): given is Source => (sources as readonly string[]).includes(given)

function toSource(given: unknown, at: string): Source {
  if (typeof given === 'string' && isSource(given)) return given
  throw new HttpError('badRequest', `${at}: expected one of ${sources.join(', ')}`)
}
