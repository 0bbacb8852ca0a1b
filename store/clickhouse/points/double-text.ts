/**
 * A double as text, as Java's `Double.toString` writes it: existing clients compare that text. The shortest digits that
 * read back to the same bits, at least one after the point, with an exponent from 1e7 on and below 1e-3: `123.0`,
 * `3.4359738368E10`, `1.0E-4`, `NaN`, `-Infinity`.
 *
 * @param value an expression of type Float64
 */
export function doubleText(value: string): string {
  const text = `toString(${value})`
  return `multiIf(isNaN(${value}), 'NaN', isInfinite(${value}), if(${value} > 0, 'Infinity', '-Infinity'),
    ${value} = 0 OR (abs(${value}) >= 1e-3 AND abs(${value}) < 1e7), if(position(${text}, '.') > 0, ${text}, concat(${text}, '.0')),
    ${withExponent(value)})`
}

/** ClickHouse writes `12345678`, `1.5e21`, `0.00012` and `1.5e-7`. */
function withExponent(value: string): string {
  const text = `toString(abs(${value}))`
  const mantissa = `substringIndex(${text}, 'e', 1)`
  const whole = `substringIndex(${mantissa}, '.', 1)`
  const digits = `trim(BOTH '0' FROM replaceOne(${mantissa}, '.', ''))`
  const fraction = `substring(${mantissa}, 3)`
  const zeros = `length(${fraction}) - length(trim(LEADING '0' FROM ${fraction}))`
  const exponent = `multiIf(position(${text}, 'e') > 0, substringIndex(${text}, 'e', -1),
    ${whole} = '0', toString(-1 - (${zeros})), toString(length(${whole}) - 1))`
  const written = `concat(substring(${digits}, 1, 1), '.', if(length(${digits}) = 1, '0', substring(${digits}, 2)), 'E', ${exponent})`
  // Java has two digits where more than one fit: the smallest double is the only one that people meet.
  return `concat(if(${value} < 0, '-', ''), if(abs(${value}) = 5e-324, '4.9E-324', ${written}))`
}
