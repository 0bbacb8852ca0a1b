import { dashes, toRunColour } from '../kit/run-colour.ts'
import type { Line } from './line.ts'

const separators = /[",\n\r]/
/** What spreadsheets take for the beginning of a formula. */
const formula = /^[=+\-@\t]/

/** Of groups, `low` and `high` are the edges of the band, and `runs` how many have a value there. */
const groupHead = ['low', 'high', 'count', 'not_finite', 'runs']

/** What is drawn, one entry a line, with exact numbers: an entry is a point, or a bucket of `count` points. */
export function toCsv(metric: string, xName: string, lines: Line[]): string {
  const isOfGroups = lines.some((it) => it.runs)
  const head = [
    ...(isOfGroups ? ['group'] : ['run', 'experimentKey']),
    ...['metric', xName, `${xName}_to`, 'mean'],
    ...(isOfGroups ? groupHead : ['min', 'max', 'count', 'not_finite']),
  ]
  const rows = lines.flatMap((it) =>
    it.x.map((x, at) => [
      toText(it.name),
      ...(isOfGroups ? [] : [it.key]),
      toText(metric),
      ...[x, it.xTo[at], it.y[at], it.min[at], it.max[at], it.count[at], it.nonFinite[at]].map((value) => value ?? ''),
      ...(it.runs ? [it.runs[at] ?? ''] : []),
    ]),
  )
  return [head, ...rows].map((row) => row.map((it) => quote(String(it))).join(',')).join('\r\n')
}

const toText = (text: string) => (formula.test(text) ? `'${text}` : text)
const quote = (text: string) => (separators.test(text) ? `"${text.replaceAll('"', '""')}"` : text)

type Frame = { title: string; width: number; height: number; from: number; to: number; low: number; high: number }

const margin = { left: 64, right: 16, top: 36, bottom: 28 }

/** The lines as a drawing for papers: text stays text, and every point is there. */
export function toSvg(lines: Line[], frame: Frame, toTick: (value: number) => string): string {
  const { title, width, height, from, to, low, high } = frame
  const right = width - margin.right
  const bottom = height - margin.bottom
  const toX = (x: number) => margin.left + ((x - from) / (to - from || 1)) * (right - margin.left)
  const toY = (y: number) => bottom - ((y - low) / (high - low || 1)) * (bottom - margin.top)
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="${margin.left}" y="20" font-size="13" font-weight="600">${escapeXml(title)}</text>`,
  ]
  for (let tick = 0; tick <= 4; tick++) {
    const y = low + ((high - low) * tick) / 4
    const x = from + ((to - from) * tick) / 4
    parts.push(
      `<line x1="${margin.left}" x2="${right}" y1="${toY(y)}" y2="${toY(y)}" stroke="#e3e6eb"/>`,
      `<text x="${margin.left - 6}" y="${toY(y) + 4}" text-anchor="end" fill="#545c6b">${escapeXml(toTick(y))}</text>`,
      `<text x="${toX(x)}" y="${bottom + 16}" text-anchor="middle" fill="#545c6b">${escapeXml(toTick(x))}</text>`,
    )
  }
  parts.push(
    `<clipPath id="plot"><rect x="${margin.left}" y="${margin.top}" width="${right - margin.left}" height="${bottom - margin.top}"/></clipPath><g clip-path="url(#plot)" fill="none">`,
  )
  for (const line of lines) {
    const colour = toRunColour(line.key, false)
    if (line.isBucketed)
      parts.push(`<path d="${toBand(line, toX, toY)}" fill="${colour}" fill-opacity="0.18" stroke="none"/>`)
    parts.push(
      `<path d="${toPath(line, toX, toY)}" stroke="${colour}" stroke-width="1.5"${toDashArray(line)}><title>${escapeXml(line.name)}</title></path>`,
    )
  }
  return `${parts.join('\n')}\n</g></svg>\n`
}

const toDashArray = ({ dash }: Line) => (dash === 0 ? '' : ` stroke-dasharray="${dashes[dash]?.join(' ')}"`)

type ToPixel = (value: number) => number

function toPath({ x, drawn }: Line, toX: ToPixel, toY: ToPixel): string {
  let isDown = false
  return drawn
    .map((value, at) => {
      const command = isDown ? 'L' : 'M'
      isDown = value !== null
      return value === null ? '' : `${command}${round(toX(x[at] as number))},${round(toY(value))}`
    })
    .join('')
}

function toBand({ x, min, max }: Line, toX: ToPixel, toY: ToPixel): string {
  const there = x.map((_, at) => at).filter((at) => min[at] != null && max[at] != null)
  const corner = (at: number, y: number) => `${round(toX(x[at] as number))},${round(toY(y))}`
  const over = there.map((at) => corner(at, max[at] as number))
  const under = there.reverse().map((at) => corner(at, min[at] as number))
  return over.length === 0 ? '' : `M${[...over, ...under].join('L')}Z`
}

const round = (it: number) => Math.round(it * 100) / 100
const escapeXml = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** Hands a file to the reader. */
export function download(name: string, content: Blob) {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name.replaceAll(/[^\w.-]+/g, '_')
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
