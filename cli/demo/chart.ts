import type { Colour, Terminal } from '../terminal/terminal.ts'

// A line chart in text, both axes logarithmic. A series is drawn either with braille dots (2 x 4 to a character) or
// with a mark of its own, so that two series can be told apart without colours. Values outside the plot are not hidden:
// values above the top are shown at the top edge, NaN in a row of its own below, and the line has a gap there.

export interface ChartSeries {
  name: string
  points: { x: number; y: number }[]
  /** The character that draws the line, or braille if the terminal supports it. */
  mark: string | 'braille'
  colour: Colour
}

export interface ChartFrame {
  /** Characters and lines of the plot itself, without its labels. */
  width: number
  height: number
  xLabel: string
  yLabel: string
  /** Both axes: lowest and highest value shown, greater than zero. */
  x: [number, number]
  y: [number, number]
}

interface Cell {
  text: string
  colour: Colour
}

const NAN_LABEL = 'NaN'
// The bits of the braille character's dots, by column and row.
const DOTS = [
  [0x01, 0x02, 0x04, 0x40],
  [0x08, 0x10, 0x20, 0x80],
]

/** Draws the series, later ones over earlier ones. Returns the lines from the title to the legend. */
export function renderChart(
  series: ChartSeries[],
  frame: ChartFrame,
  terminal: Pick<Terminal, 'isUnicode' | 'paint'>,
): string[] {
  const { width, height } = frame
  const { isUnicode, paint } = terminal
  const cells: (Cell | undefined)[][] = Array.from({ length: height + 1 }, () => new Array(width).fill(undefined))
  const drawn = series.map((one) => ({ ...one, mark: one.mark === 'braille' && !isUnicode ? '*' : one.mark }))
  for (const one of drawn) drawSeries(cells, one, frame, isUnicode)

  const [side, corner, floor, tick] = isUnicode ? ['│', '└', '─', '┤'] : ['|', '+', '-', '+']
  const yTicks = new Map(decades(frame.y).map((value) => [height - 1 - place(value, frame.y, height), toLabel(value)]))
  const labels = [...yTicks.values(), NAN_LABEL]
  const margin = Math.max(...labels.map((label) => label.length))
  const lines = cells.slice(0, height).map((row, index) => {
    const label = yTicks.get(index)
    return `${(label ?? '').padStart(margin)} ${label ? tick : side}${paintRow(row, paint)}`
  })
  const nanRow = cells[height] ?? []
  if (nanRow.some((cell) => cell)) lines.push(`${NAN_LABEL.padStart(margin)} ${tick}${paintRow(nanRow, paint)}`)
  lines.push(`${' '.repeat(margin)} ${corner}${(floor as string).repeat(width)}`)
  lines.push(`${' '.repeat(margin)}  ${toAxis(frame)}`)
  const title = `${' '.repeat(margin)} ${frame.yLabel}`
  const legend = drawn.map(({ name, mark, colour }) => `${paint(colour, mark === 'braille' ? '⠒⠤' : mark)} ${name}`)
  return [title, ...lines, `${' '.repeat(margin)}  ${legend.join('    ')}`].map((line) => line.trimEnd())
}

function drawSeries(cells: (Cell | undefined)[][], series: ChartSeries, frame: ChartFrame, isUnicode: boolean): void {
  const { width, height } = frame
  const [perColumn, perRow] = series.mark === 'braille' ? [2, 4] : [1, 1]
  const columns = width * perColumn
  const rows = height * perRow
  const { means, isNan } = toColumns(series.points, frame.x, columns)
  const dots = new Map<Cell, number>()

  const put = (column: number, row: number) => {
    const line = cells[height - 1 - Math.floor(row / perRow)] as (Cell | undefined)[]
    const at = Math.floor(column / perColumn)
    if (series.mark !== 'braille') {
      line[at] = { text: series.mark, colour: series.colour }
      return
    }
    const dot = DOTS[column % 2]?.[3 - (row % 4)] ?? 0
    const kept = line[at]
    const cell = kept && dots.has(kept) ? kept : { text: '', colour: series.colour }
    const bits = (dots.get(cell) ?? 0) | dot
    dots.set(cell, bits)
    cell.text = String.fromCodePoint(0x2800 + bits)
    line[at] = cell
  }

  let last: { column: number; row: number } | undefined
  for (let column = 0; column < columns; column++) {
    if (isNan[column]) {
      const below = cells[height] as (Cell | undefined)[]
      below[Math.floor(column / perColumn)] = {
        text: series.mark === 'braille' ? '•' : series.mark,
        colour: series.colour,
      }
      last = undefined
    }
    const mean = means[column]
    if (mean === undefined) continue
    const row = place(mean, frame.y, rows)
    if (last) joinUp(last, { column, row }, put)
    put(column, row)
    last = { column, row }
    if (isNan[column]) last = undefined
  }
  // Drawn over the line: a value above the top must not look like one at the top.
  for (let column = 0; column < columns; column++) {
    if ((means[column] ?? 0) <= frame.y[1]) continue
    const top = cells[0] as (Cell | undefined)[]
    top[Math.floor(column / perColumn)] = { text: isUnicode ? '▲' : '^', colour: series.colour }
  }
}

// The mean of the values in each column, if any, and whether a NaN is among them.
function toColumns(points: ChartSeries['points'], range: [number, number], columns: number) {
  const sums = new Float64Array(columns)
  const counts = new Uint32Array(columns)
  const isNan: boolean[] = new Array(columns).fill(false)
  for (const { x, y } of points) {
    if (x < range[0] || x > range[1]) continue
    const column = place(x, range, columns)
    if (Number.isNaN(y)) isNan[column] = true
    else {
      sums[column] = (sums[column] as number) + y
      counts[column] = (counts[column] as number) + 1
    }
  }
  const means = Array.from(sums, (sum, column) => (counts[column] ? sum / (counts[column] as number) : undefined))
  return { means, isNan }
}

// Fills the columns between two points, and the jump in height, so that the line has no holes.
function joinUp(
  from: { column: number; row: number },
  to: { column: number; row: number },
  put: (column: number, row: number) => void,
): void {
  const steps = Math.max(to.column - from.column, Math.abs(to.row - from.row))
  for (let step = 1; step < steps; step++) {
    const share = step / steps
    put(from.column + Math.round(share * (to.column - from.column)), from.row + Math.round(share * (to.row - from.row)))
  }
}

// The cell (from 0) of a value on a logarithmic axis; what lies outside goes to the nearest end, so does infinity.
function place(value: number, [low, high]: [number, number], cells: number): number {
  const share = Math.log(Math.max(value, Number.MIN_VALUE) / low) / Math.log(high / low)
  return Math.min(cells - 1, Math.max(0, Math.round(share * (cells - 1))))
}

function decades([low, high]: [number, number]): number[] {
  const first = Math.ceil(Math.log10(low) - 1e-9)
  const last = Math.floor(Math.log10(high) + 1e-9)
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => 10 ** (first + index))
}

function toLabel(value: number): string {
  const exponent = Math.round(Math.log10(value))
  if (exponent < -3 || exponent > 4) return `1e${exponent}`
  return exponent < 0 ? value.toFixed(-exponent) : String(Math.round(value))
}

function toAxis({ x, width, xLabel }: ChartFrame): string {
  let line = ''
  for (const value of decades(x)) {
    const column = place(value, x, width)
    const label = toLabel(value)
    if ((line === '' || column > line.length) && column + label.length <= width) line = line.padEnd(column) + label
  }
  const end = Math.max(line.length + 2, width - xLabel.length)
  return line.padEnd(end) + xLabel
}

// Paints runs of one colour at once, or each character would have its own escape codes.
function paintRow(row: (Cell | undefined)[], paint: Terminal['paint']): string {
  let line = ''
  for (let at = 0; at < row.length; ) {
    const colour = row[at]?.colour
    let stretch = ''
    for (; at < row.length && row[at]?.colour === colour; at++) stretch += row[at]?.text ?? ' '
    line += colour ? paint(colour, stretch) : stretch
  }
  return line
}
