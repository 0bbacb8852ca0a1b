import { type KeyboardEvent, type PointerEvent, useMemo, useRef, useState } from 'react'
import { Canvas } from './canvas.tsx'
import styles from './drawings.module.css'

/** Points with a colour for each, and lines. Coordinates are three to a point. */
export type Scene = {
  positions: Float32Array
  colours: string[] | undefined
  lines: { points: number[][]; colour: string }[]
}

const height = 320
const turn = Math.PI / 24

type Props = {
  scene: Scene
  label: string
  /** What stands beside the pointer at a point. */
  toName?(point: number): string
}

/** Points in space, seen from afar: dragged or turned with the arrow keys, nearer with + and farther with -. */
export function Space({ scene, label, toName }: Props) {
  const [view, setView] = useState({ yaw: 0.6, pitch: 0.4, zoom: 1 })
  const [named, setNamed] = useState<number>()
  const dragged = useRef<{ x: number; y: number }>(undefined)
  const drawn = useRef<Float32Array>(undefined)
  const { centre, reach } = useMemo(() => findMiddle(scene), [scene])
  const drawnOf = useMemo(() => ({ scene, view }), [scene, view])
  const change = (by: Partial<typeof view>) => setView((it) => ({ ...it, ...by }))

  function onKeyDown(event: KeyboardEvent) {
    const { yaw, pitch, zoom } = view
    const by = {
      ArrowLeft: { yaw: yaw - turn },
      ArrowRight: { yaw: yaw + turn },
      ArrowUp: { pitch: pitch - turn },
      ArrowDown: { pitch: pitch + turn },
      '+': { zoom: zoom * 1.2 },
      '-': { zoom: zoom / 1.2 },
    }[event.key]
    if (!by) return
    event.preventDefault()
    change(by)
  }

  function onPointerMove(event: PointerEvent<HTMLCanvasElement>) {
    const from = dragged.current
    if (!from) {
      if (toName) setNamed(findNearest(drawn.current, event.nativeEvent.offsetX, event.nativeEvent.offsetY))
      return
    }
    dragged.current = { x: event.clientX, y: event.clientY }
    change({ yaw: view.yaw + (event.clientX - from.x) / 120, pitch: view.pitch + (event.clientY - from.y) / 120 })
  }

  return (
    <>
      <Canvas
        label={label}
        height={height}
        of={drawnOf}
        tabIndex={0}
        className={styles.space}
        onKeyDown={onKeyDown}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId)
          dragged.current = { x: event.clientX, y: event.clientY }
        }}
        onPointerUp={() => {
          dragged.current = undefined
        }}
        onPointerMove={onPointerMove}
        onPointerLeave={() => setNamed(undefined)}
        draw={(to, size, ink) => {
          const scale = ((Math.min(size.width, size.height) / 2) * 0.9 * view.zoom) / reach
          const [sinYaw, cosYaw] = [Math.sin(view.yaw), Math.cos(view.yaw)]
          const [sinPitch, cosPitch] = [Math.sin(view.pitch), Math.cos(view.pitch)]
          const place = (x: number, y: number, z: number): [number, number] => {
            const [dx, dy, dz] = [x - centre[0], y - centre[1], z - centre[2]]
            const depth = -dx * sinYaw + dz * cosYaw
            return [
              size.width / 2 + (dx * cosYaw + dz * sinYaw) * scale,
              size.height / 2 - (dy * cosPitch - depth * sinPitch) * scale,
            ]
          }
          const { positions, colours, lines } = scene
          const count = positions.length / 3
          const dot = count > 20_000 ? 1.5 : count > 2_000 ? 2.5 : 4
          const places = new Float32Array(count * 2)
          to.fillStyle = ink.accent
          to.globalAlpha = count > 20_000 ? 0.6 : 0.85
          let colour = ''
          for (let at = 0; at < count; at++) {
            const [x, y, z] = [positions[at * 3], positions[at * 3 + 1], positions[at * 3 + 2]] as [
              number,
              number,
              number,
            ]
            const [left, top] = place(x, y, z)
            places[at * 2] = left
            places[at * 2 + 1] = top
            const own = colours?.[at] ?? ink.accent
            if (own !== colour) {
              colour = own
              to.fillStyle = own
            }
            to.fillRect(left - dot / 2, top - dot / 2, dot, dot)
          }
          to.globalAlpha = 1
          to.lineWidth = 1
          for (const { points, colour: own } of lines) {
            to.strokeStyle = own || ink.text
            to.beginPath()
            for (const [at, [x = 0, y = 0, z = 0]] of points.entries()) {
              const [left, top] = place(x, y, z)
              if (at === 0) to.moveTo(left, top)
              else to.lineTo(left, top)
            }
            to.stroke()
          }
          drawn.current = places
        }}
      />
      <p className={styles.facts}>
        {named !== undefined && toName ? toName(named) : 'Drag it or press the arrow keys to turn, + and − to zoom.'}
      </p>
    </>
  )
}

function findMiddle({ positions, lines }: Scene) {
  const least = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  const most = least.map((it) => -it)
  const add = (axis: number, value: number) => {
    least[axis] = Math.min(least[axis] as number, value)
    most[axis] = Math.max(most[axis] as number, value)
  }
  for (let at = 0; at < positions.length; at++) add(at % 3, positions[at] as number)
  for (const { points } of lines)
    for (const point of points) for (let axis = 0; axis < 3; axis++) add(axis, point[axis] ?? 0)
  const isEmpty = !Number.isFinite(least[0])
  const centre = least.map((it, axis) => (isEmpty ? 0 : (it + (most[axis] as number)) / 2)) as [number, number, number]
  const reach = isEmpty ? 1 : Math.max(...least.map((it, axis) => (most[axis] as number) - it)) / 2 || 1
  return { centre, reach: reach * 1.3 }
}

const nearPixels = 10

function findNearest(places: Float32Array | undefined, x: number, y: number): number | undefined {
  let nearest: number | undefined
  let least = nearPixels ** 2
  for (let at = 0; places && at < places.length / 2; at++) {
    const apart = ((places[at * 2] as number) - x) ** 2 + ((places[at * 2 + 1] as number) - y) ** 2
    if (apart < least) {
      least = apart
      nearest = at
    }
  }
  return nearest
}
