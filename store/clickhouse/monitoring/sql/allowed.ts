/**
 * What the SQL of callers may consist of. ClickHouse parses it (`EXPLAIN AST`), and every node of its syntax tree must be
 * allowed here: what is not listed is refused, so a function of a later version is too until someone has looked at it.
 *
 * This is the second of two fences, see `sandbox.ts`. It is needed for what grants do not cover: `file('/etc/passwd')` as a
 * scalar function needs no grant in an embedded engine, and settings of a subquery are applied in spite of `readonly`.
 */

/** Nodes of a query. Not among them: `Set` (SETTINGS), table functions, and all statements but SELECT. */
const queryNodes = new Set(
  `SelectWithUnionQuery SelectIntersectExceptQuery SelectQuery ExpressionList Subquery WithElement TablesInSelectQuery
  TablesInSelectQueryElement TableExpression TableJoin TableIdentifier Identifier Literal Function Asterisk OrderByElement
  WindowDefinition DataType`.split(/\s+/),
)

/** Nodes of a condition: no subquery, and so no table. */
const conditionNodes = new Set(['Identifier', 'Literal', 'Function', 'ExpressionList', 'DataType'])

/** The scalar functions, in lower case. None of them is the name of a table function: `test/store/clickhouse/sql.test.ts`. */
const functions = new Set(
  `plus minus multiply divide intdiv modulo negate abs sign round floor ceil ceiling trunc truncate sqrt cbrt exp exp2 exp10 log
  log2 log10 ln power pow sin cos tan asin acos atan atan2 sinh cosh tanh pi e greatest least isfinite isinfinite isnan
  equals notequals less greater lessorequals greaterorequals and or not xor between in notin isnull isnotnull ifnull nullif
  coalesce assumenotnull tonullable if multiif caseWithExpression isdistinctfrom isnotdistinctfrom like notlike ilike notilike
  match concat substring substr left right lower upper lcase ucase trim trimleft trimright trimboth ltrim rtrim length
  char_length character_length lengthutf8 position locate replace replaceall replaceone replaceregexpall replaceregexpone
  startswith endswith empty notempty reverse leftpad rightpad splitbychar cast _cast accuratecast accuratecastornull tostring
  toint8 toint16 toint32 toint64 touint8 touint16 touint32 touint64 tofloat32 tofloat64 tofloat64ornull tofloat64orzero
  toint64ornull toint64orzero tobool todate todatetime todatetime64 todecimal64 tounixtimestamp tounixtimestamp64milli
  fromunixtimestamp64milli fromunixtimestamp tostartofminute tostartofhour tostartofday tostartofweek tostartofmonth
  tostartofquarter tostartofyear tostartofinterval datetrunc date_trunc datediff date_diff dateadd datesub adddays addhours
  addminutes addmonths addseconds addweeks addyears subtractdays subtracthours subtractminutes subtractmonths subtractweeks
  subtractyears toyear toquarter tomonth todayofmonth todayofweek todayofyear tohour tominute tosecond toyyyymm toyyyymmdd
  tointervalsecond tointervalminute tointervalhour tointervalday tointervalweek tointervalmonth tointervalquarter
  tointervalyear now today yesterday formatdatetime tuple array arrayelement tupleelement lambda has
  row_number rank dense_rank lag lead laginframe leadinframe ntile
  timestamp_to_millis millis_to_timestamp accuracy`
    .split(/\s+/)
    .map((it) => it.toLowerCase()),
)

const aggregates =
  /^(count|countdistinct|sum|avg|min|max|any|any_value|anylast|first_value|last_value|uniq|uniqexact|median|quantile|quantileexact|quantiles|stddevpop|stddevsamp|stddev_pop|stddev_samp|varpop|varsamp|var_pop|var_samp|corr|covarpop|covarsamp|covar_pop|covar_samp|argmin|argmax|skewpop|skewsamp|kurtpop|kurtsamp)(distinct)?(if)?(ornull|ordefault)?$/

export const allowedFunctions: ReadonlySet<string> = functions

const isAllowed = (name: string) => functions.has(name.toLowerCase()) || aggregates.test(name.toLowerCase())

/**
 * Looks for something that a query of a caller may not have.
 *
 * @param tree the answer to `EXPLAIN AST`, one node a line
 * @returns what is wrong, for the caller; undefined if nothing is
 */
export function findForbidden(tree: string): string | undefined {
  const lines = tree.split('\n').filter(Boolean)
  // A second child is FORMAT or INTO OUTFILE.
  if (!/^Select(WithUnion|IntersectExcept)Query \(children 1\)$/.test(lines[0] ?? '')) {
    return 'must be one SELECT, without FORMAT, SETTINGS and INTO OUTFILE'
  }
  return lines.map((it) => findFault(it, queryNodes)).find((it) => it !== undefined)
}

/** The same for a condition, which is parsed as `SELECT (condition)`: one expression, which reads the row it is about. */
export function findForbiddenInCondition(tree: string): string | undefined {
  const [query, list, select, expressions, ...lines] = tree.split('\n').filter(Boolean)
  const isOne =
    query === 'SelectWithUnionQuery (children 1)' &&
    list === ' ExpressionList (children 1)' &&
    select === '  SelectQuery (children 1)' &&
    expressions === '   ExpressionList (children 1)'
  if (!isOne) return 'must be one condition on the columns of the model'
  return lines.map((it) => findFault(it, conditionNodes)).find((it) => it !== undefined)
}

function findFault(line: string, nodes: ReadonlySet<string>): string | undefined {
  const [, node = '', name = ''] = /^ *(\w+)(?: (\S+))?/.exec(line) ?? []
  if (node === 'Set') return 'SETTINGS are not allowed'
  if (node === 'Function') return isAllowed(name) ? undefined : `the function ${name} is not allowed`
  if (node === 'TableIdentifier' && name.includes('.')) return `only MODEL can be read, not ${name}`
  return nodes.has(node) ? undefined : `${node} is not allowed`
}

/** Whether a query asks for all columns. `count(*)` does not. */
export const hasAsterisk = (tree: string) => {
  const lines = tree.split('\n')
  return lines.some((it, at) => /^ *Asterisk/.test(it) && !/^ *Function count /.test(lines[at - 2] ?? ''))
}
