/**
 * A double as text, as Java's `Double.toString` writes it: existing clients compare that text. The shortest digits that
 * read back to the same bits, at least one after the point, with an exponent from 1e7 on and below 1e-3: `123.0`,
 * `3.4359738368E10`, `1.0E-4`, `NaN`, `-Infinity`.
 *
 * What is used more than once has a name in the query, as ClickHouse takes longer to analyze it again than to read 400 points.
 *
 * @param value an expression of type Float64
 * @param name begins the names, and differs from those of other calls in the same query
 */
export function doubleText(value: string, name = 'double'): string {
  return `multiIf(isNaN(${value}), 'NaN', isInfinite(${value}), if(${value} > 0, 'Infinity', '-Infinity'),
    ${value} = 0 OR ((abs(${value}) AS ${name}_size) >= 1e-3 AND ${name}_size < 1e7),
    if(position((toString(${value}) AS ${name}_text), '.') > 0, ${name}_text, concat(${name}_text, '.0')),
    ${withExponent(value, name)})`
}

/** ClickHouse writes `12345678`, `1.5e21`, `0.00012` and `1.5e-7`. */
function withExponent(value: string, name: string): string {
  const [text, mantissa, whole, digits, fraction] = ['plain', 'mantissa', 'whole', 'digits', 'fraction'].map(
    (it) => `${name}_${it}`,
  )
  const zeros = `length((substring(${mantissa}, 3) AS ${fraction})) - length(trim(LEADING '0' FROM ${fraction}))`
  const exponent = `multiIf(position(${text}, 'e') > 0, substringIndex(${text}, 'e', -1),
    (substringIndex(${mantissa}, '.', 1) AS ${whole}) = '0', toString(-1 - (${zeros})), toString(length(${whole}) - 1))`
  const mantissaOf = `(substringIndex((toString(${name}_size) AS ${text}), 'e', 1) AS ${mantissa})`
  const digitsOf = `(trim(BOTH '0' FROM replaceOne(${mantissaOf}, '.', '')) AS ${digits})`
  const written = `concat(substring(${digitsOf}, 1, 1), '.', if(length(${digits}) = 1, '0', substring(${digits}, 2)), 'E', ${exponent})`
  // Java has two digits where more than one fit: the smallest double is the only one that people meet.
  return `concat(if(${value} < 0, '-', ''), if(${name}_size = 5e-324, '4.9E-324', ${written}))`
}

/** The same for a value in this process. */
export function toDoubleText(value: number): string {
  if (!Number.isFinite(value)) return String(value)
  const size = Math.abs(value)
  const sign = value < 0 || Object.is(value, -0) ? '-' : ''
  if (size === 0) return `${sign}0.0`
  if (size === 5e-324) return `${sign}4.9E-324`
  if (size >= 1e-3 && size < 1e7) return `${sign}${Number.isInteger(size) ? `${size}.0` : size}`
  const [digits = '', exponent] = size.toExponential().split('e')
  return `${sign}${digits.includes('.') ? digits : `${digits}.0`}E${Number(exponent)}`
}
