/**
 * Text as a terminal shows it: colours, carriage returns, backspaces and erased lines. Every other control sequence is
 * left out, so that output can move no cursor, set no title and write no link. A line is one row; what moves between rows
 * (`CSI A`) is left out too.
 */

export type Style = {
  /** A CSS colour, or a number of the sixteen colours of the theme. */
  fg?: string | number
  bg?: string | number
  bold?: true
  dim?: true
  italic?: true
  underline?: true
  strike?: true
  inverse?: true
}
export type Span = { text: string; style: Style }

const plain: Style = {}
const columnsMax = 100_000

// As text, because a control character in a literal is easily lost.
const csi = '\\u001b\\[([0-9;:<=>?]*)[ -/]*([@-~])'
const strings = '\\u001b[\\]PX^_][^\\u0007\\u001b]*(?:\\u0007|\\u001b\\\\)?'
const others = '\\u001b[ -/]*[0-~]?'
const controls = '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]'
const toTokens = () => new RegExp(`${csi}|${strings}|${others}|${controls}`, 'g')
const special = new RegExp(controls)

/** One row, and the style in which the next one begins. */
export function toRow(line: string, start: Style = plain): { spans: Span[]; end: Style } {
  if (!special.test(line)) return { spans: line === '' ? [] : [{ text: line, style: start }], end: start }
  const row = createRow()
  let style = start
  let from = 0
  for (const token of line.matchAll(toTokens())) {
    row.write(line.slice(from, token.index), style)
    from = token.index + token[0].length
    const [whole, parameters, final] = token
    if (whole === '\r') row.moveTo(0)
    else if (whole === '\b') row.moveBy(-1)
    else if (final === 'm') style = applyColours(style, parameters as string)
    else if (final === 'K') row.erase(Number(parameters) || 0)
    else if (final === 'G') row.moveTo((Number(parameters) || 1) - 1)
    else if (final === 'C') row.moveBy(Number(parameters) || 1)
    else if (final === 'D') row.moveBy(-(Number(parameters) || 1))
  }
  row.write(line.slice(from), style)
  return { spans: row.toSpans(), end: style }
}

/** The text of a row without its colours. */
export const toText = (line: string) =>
  toRow(line)
    .spans.map((it) => it.text)
    .join('')

/** The style in which each line begins, for lines whose predecessors left one on; most have none. */
export function findStarts(lines: string[], before: Style = plain, from = 0, starts = new Map<number, Style>()) {
  let style = before
  for (let at = from; at < lines.length; at++) {
    if (style !== plain && Object.keys(style).length > 0) starts.set(at, style)
    const line = lines[at] as string
    if (line.includes('\u001b')) style = toRow(line, style).end
  }
  return { starts, end: style }
}

/** The cells of a row. A write over what is there replaces it, as a progress bar does. */
function createRow() {
  const characters: string[] = []
  const styles: Style[] = []
  let at = 0
  return {
    write(text: string, style: Style) {
      for (const character of text) {
        if (at >= columnsMax) return
        while (characters.length < at) {
          characters.push(' ')
          styles.push(plain)
        }
        characters[at] = character
        styles[at] = style
        at++
      }
    },
    moveTo(column: number) {
      at = Math.min(Math.max(column, 0), columnsMax)
    },
    moveBy(columns: number) {
      at = Math.min(Math.max(at + columns, 0), columnsMax)
    },
    /** 0: from the cursor on, 1: up to it, 2: all. */
    erase(part: number) {
      if (part === 2) characters.length = 0
      else if (part === 0) characters.length = Math.min(characters.length, at)
      else characters.fill(' ', 0, at + 1)
      styles.length = characters.length
    },
    toSpans(): Span[] {
      const spans: Span[] = []
      characters.forEach((text, column) => {
        const style = styles[column] as Style
        const last = spans.at(-1)
        if (last?.style === style) last.text += text
        else spans.push({ text, style })
      })
      return spans
    },
  }
}

const switches: Record<number, keyof Style> = {
  1: 'bold',
  2: 'dim',
  3: 'italic',
  4: 'underline',
  7: 'inverse',
  9: 'strike',
}
const offs: Record<number, (keyof Style)[]> = {
  22: ['bold', 'dim'],
  23: ['italic'],
  24: ['underline'],
  27: ['inverse'],
  29: ['strike'],
  39: ['fg'],
  49: ['bg'],
}

/** Select Graphic Rendition, ECMA-48 8.3.117, with the colours of xterm. */
function applyColours(before: Style, parameters: string): Style {
  if (!/^[0-9;:]*$/.test(parameters)) return before
  const codes = parameters.split(/[;:]/).map(Number)
  let style: Style = { ...before }
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at] as number
    if (code === 0) style = {}
    else if (switches[code]) Object.assign(style, { [switches[code]]: true })
    else if (offs[code]) for (const name of offs[code]) delete style[name]
    else if (code === 38 || code === 48) {
      const { colour, used } = readColour(codes, at + 1)
      if (colour !== undefined) style[code === 38 ? 'fg' : 'bg'] = colour
      at += used
    } else if (code >= 30 && code <= 37) style.fg = code - 30
    else if (code >= 90 && code <= 97) style.fg = code - 82
    else if (code >= 40 && code <= 47) style.bg = code - 40
    else if (code >= 100 && code <= 107) style.bg = code - 92
  }
  return Object.keys(style).length === 0 ? plain : style
}

function readColour(codes: number[], at: number): { colour?: string | number; used: number } {
  if (codes[at] === 5) return { colour: toIndexed(codes[at + 1]), used: 2 }
  if (codes[at] !== 2) return { used: 0 }
  const parts = codes.slice(at + 1, at + 4)
  const isColour = parts.length === 3 && parts.every((it) => it >= 0 && it <= 255)
  return { ...(isColour && { colour: `rgb(${parts.join(' ')})` }), used: 4 }
}

const levels = [0, 95, 135, 175, 215, 255]

/** Sixteen of the theme, a cube of 6 x 6 x 6, and 24 greys. */
function toIndexed(index: number | undefined): string | number | undefined {
  if (index === undefined || !(index >= 0 && index <= 255)) return undefined
  if (index < 16) return index
  if (index >= 232)
    return `rgb(${Array(3)
      .fill(8 + (index - 232) * 10)
      .join(' ')})`
  const cube = index - 16
  return `rgb(${[Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((it) => levels[it]).join(' ')})`
}
