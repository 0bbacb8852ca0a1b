import type uPlot from 'uplot'
import { dashes } from '../kit/run-colour.ts'
import type { Line } from './line.ts'

type Looks = {
  toColour(key: string): string
  /** Drawn thick and on top. */
  highlighted: string | undefined
  isSmoothed: boolean
  badColour: string
  backgroundColour: string
}

/** With more lines than these they are a pixel wide with plain corners, which the browser draws in two thirds of the time. */
const linesUncrowded = 12

/** Closer than this on average, dots of points would hide the line. */
const dotsApartMin = 9

/**
 * Draws all lines on the canvas of a chart: of each the band from least to greatest, the raw line faint when there is a smoothed
 * one, the line, and a cross at the lower edge where values are not finite.
 */
export function drawLines(u: uPlot, lines: Line[], looks: Looks) {
  const { ctx } = u
  const { left, top, width, height } = u.bbox
  ctx.save()
  ctx.beginPath()
  ctx.rect(left, top, width, height)
  ctx.clip()
  const ratio = devicePixelRatio
  const isCrowded = lines.length > linesUncrowded
  const inOrder = [...lines].sort((a, b) => Number(a.key === looks.highlighted) - Number(b.key === looks.highlighted))
  const placed = inOrder.map((line) => ({ line, places: toPlaces(u, line) }))
  // Before all lines: bands of groups are wide, and would cover the lines of others.
  for (const { line, places } of placed) {
    if (!line.isBucketed) continue
    const isOnTop = line.key === looks.highlighted
    const isBehind = looks.highlighted !== undefined && !isOnTop
    ctx.strokeStyle = ctx.fillStyle = looks.toColour(line.key)
    ctx.lineJoin = isCrowded ? 'bevel' : 'round'
    ctx.globalAlpha = isBehind ? 0.05 : isCrowded && !isOnTop ? 0.1 : 0.18
    fillBand(u, line, places)
  }
  for (const { line, places } of placed) {
    const isOnTop = line.key === looks.highlighted
    const isBehind = looks.highlighted !== undefined && !isOnTop
    ctx.strokeStyle = ctx.fillStyle = looks.toColour(line.key)
    ctx.lineJoin = isCrowded ? 'bevel' : 'round'
    if (looks.isSmoothed) {
      ctx.globalAlpha = isBehind ? 0.08 : 0.25
      ctx.lineWidth = ratio
      strokeLine(u, places, line.y)
    }
    ctx.globalAlpha = isBehind ? 0.25 : 1
    ctx.lineWidth = (isOnTop ? 2.25 : isCrowded ? 1 : 1.5) * ratio
    ctx.setLineDash((dashes[line.dash] ?? []).map((it) => it * ratio))
    strokeLine(u, places, line.drawn)
    ctx.setLineDash([])
    if (!line.isBucketed) drawPoints(u, places, line, 2 * ratio)
  }
  ctx.globalAlpha = 1
  drawNonFinite(u, lines, looks)
  ctx.restore()
}

/** Pixels of x of each entry. */
function toPlaces(u: uPlot, { x, xTo }: Line): number[] {
  return x.map((it, at) => (u.valToPos(it, 'x', true) + u.valToPos(xTo[at] as number, 'x', true)) / 2)
}

function strokeLine(u: uPlot, places: number[], values: (number | null)[]) {
  const { ctx } = u
  const isLog = u.scales.y?.distr === 3
  ctx.beginPath()
  let isDown = false
  for (let at = 0; at < values.length; at++) {
    const value = values[at]
    if (value == null || (isLog && value <= 0)) {
      isDown = false
      continue
    }
    const y = u.valToPos(value, 'y', true)
    if (isDown) ctx.lineTo(places[at] as number, y)
    else ctx.moveTo(places[at] as number, y)
    isDown = true
  }
  ctx.stroke()
}

function fillBand(u: uPlot, { min, max }: Line, places: number[]) {
  const { ctx } = u
  const floor = u.scales.y?.distr === 3 ? (u.scales.y.min ?? 0) : Number.NEGATIVE_INFINITY
  for (let from = 0; from < places.length; from++) {
    if (min[from] == null) continue
    let to = from
    while (to + 1 < places.length && min[to + 1] != null) to++
    ctx.beginPath()
    for (let at = from; at <= to; at++) ctx.lineTo(places[at] as number, toY(max[at]))
    for (let at = to; at >= from; at--) ctx.lineTo(places[at] as number, toY(min[at]))
    ctx.closePath()
    ctx.fill()
    // A band as thin as nothing would hide a spike of one point.
    const alpha = ctx.globalAlpha
    ctx.globalAlpha = Math.min(1, alpha * 2.5)
    ctx.lineWidth = devicePixelRatio
    ctx.stroke()
    ctx.globalAlpha = alpha
    from = to
  }
  function toY(value: number | null | undefined): number {
    return u.valToPos(Math.max(value ?? 0, floor), 'y', true)
  }
}

/** Dots where there is room for them, and always for a point without a neighbour, through which no line goes. */
function drawPoints(u: uPlot, places: number[], { drawn }: Line, radius: number) {
  const { ctx } = u
  const apart = ((places.at(-1) ?? 0) - (places[0] ?? 0)) / Math.max(1, places.length - 1) / devicePixelRatio
  const hasRoom = places.length === 1 || apart >= dotsApartMin
  for (let at = 0; at < drawn.length; at++) {
    const value = drawn[at]
    if (!hasRoom && (drawn[at - 1] != null || drawn[at + 1] != null)) continue
    if (value == null || (u.scales.y?.distr === 3 && value <= 0)) continue
    ctx.beginPath()
    ctx.arc(places[at] as number, u.valToPos(value, 'y', true), radius, 0, 2 * Math.PI)
    ctx.fill()
  }
}

function drawNonFinite(u: uPlot, lines: Line[], { toColour, badColour }: Looks) {
  const { ctx } = u
  const size = 3.5 * devicePixelRatio
  const y = u.bbox.top + u.bbox.height - size * 2
  for (const line of lines) {
    for (let at = 0; at < line.x.length; at++) {
      if (!line.nonFinite[at]) continue
      const x = u.valToPos(line.x[at] as number, 'x', true)
      for (const [colour, width] of [
        [toColour(line.key), 4],
        [badColour, 1.5],
      ] as const) {
        ctx.strokeStyle = colour
        ctx.lineWidth = width * devicePixelRatio
        ctx.beginPath()
        ctx.moveTo(x - size, y - size)
        ctx.lineTo(x + size, y + size)
        ctx.moveTo(x + size, y - size)
        ctx.lineTo(x - size, y + size)
        ctx.stroke()
      }
    }
  }
}
