import type { Frame, ProcessProfile } from './profile.ts'

/**
 * A flame graph as one self-contained SVG file: callers above, callees below, as wide as the time spent there. The title of
 * a box has the details. Boxes narrower than a few pixels are left out.
 */
const width = 1_200
const rowHeight = 18
const margin = 12
const headHeight = 62
const shareLeast = 0.003
const rowsMax = 48
const characterWidth = 6.3

type Box = { frame: Frame; left: number; row: number }

const kinds = [
  { name: 'ours', colour: '#8ec5e8', is: ({ file }: Frame) => /\.ts$/.test(file) },
  { name: 'garbage collector', colour: '#e79a8f', is: ({ file }: Frame) => file === '(garbage collector)' },
  { name: 'native code of Node', colour: '#cbbfe3', is: ({ file }: Frame) => file === 'native' },
  { name: 'Node’s own JavaScript', colour: '#d5d9dd', is: ({ file }: Frame) => file.startsWith('node:') },
  { name: 'packages', colour: '#f3cf8b', is: () => true },
]

export function drawFlameGraph(title: string, { root, microsPerPoint }: ProcessProfile): string {
  const boxes = toBoxes(root)
  const height = headHeight + (Math.max(...boxes.map((it) => it.row)) + 1) * rowHeight + margin
  const scale = (width - 2 * margin) / root.totalMicros
  const drawn = boxes.map(({ frame, left, row }) => {
    const [x, y] = [margin + left * scale, headHeight + row * rowHeight]
    const boxWidth = frame.totalMicros * scale
    const share = frame.totalMicros / root.totalMicros
    const where = frame.file === 'native' || frame.file.startsWith('(') ? '' : ` ${frame.file}`
    const hint = `${frame.name}${where}: ${(share * 100).toFixed(1)} %, ${(share * microsPerPoint).toFixed(2)} µs a point`
    const text = shorten(`${frame.name}${where}`, boxWidth)
    const box = `<rect x="${x.toFixed(1)}" y="${y}" width="${Math.max(0.5, boxWidth - 0.6).toFixed(1)}" height="${rowHeight - 1}" fill="${colourOf(frame)}"/>`
    const label = text && `<text x="${(x + 3).toFixed(1)}" y="${y + 12.5}">${escapeXml(text)}</text>`
    return `<g><title>${escapeXml(hint)}</title>${box}${label}</g>`
  })
  const legend = kinds.map(({ name, colour }, index) => {
    const x = margin + index * 170
    return `<rect x="${x}" y="38" width="12" height="12" fill="${colour}"/><text x="${x + 17}" y="48">${name}</text>`
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    '<style>text{font:11px Menlo,Consolas,monospace;fill:#222}</style>',
    `<rect width="${width}" height="${height}" fill="white"/>`,
    `<text x="${margin}" y="22" style="font:bold 15px Helvetica,Arial,sans-serif">${escapeXml(title)}</text>`,
    ...legend,
    ...drawn,
    '</svg>\n',
  ].join('\n')
}

function toBoxes(root: Frame): Box[] {
  const boxes: Box[] = []
  const visit = (frame: Frame, left: number, row: number) => {
    if (frame.totalMicros < root.totalMicros * shareLeast || row >= rowsMax) return
    boxes.push({ frame, left, row })
    let at = left
    for (const called of frame.called) {
      visit(called, at, row + 1)
      at += called.totalMicros
    }
  }
  let at = 0
  for (const called of root.called) {
    visit(called, at, 0)
    at += called.totalMicros
  }
  return boxes
}

const colourOf = (frame: Frame) => kinds.find((it) => it.is(frame))?.colour ?? '#fff'

function shorten(text: string, boxWidth: number): string {
  const characters = Math.floor((boxWidth - 6) / characterWidth)
  if (characters < 3) return ''
  return text.length <= characters ? text : `${text.slice(0, characters - 1)}…`
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
