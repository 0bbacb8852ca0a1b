import { useMemo } from 'react'
import { toCountOf } from '../../kit/text.ts'
import { isObject, toNumbers } from './logged-json.ts'
import { type Scene, Space } from './space.tsx'

/** Of points without a colour where others have one. */
const uncoloured = 'rgb(128 128 128)'

type Shape = { scene: Scene; boxes: number }

/** What `log_points_3d` logs: points with or without a colour of 0 to 1, and boxes made of lines. */
export function toPoints(content: unknown): Shape | undefined {
  if (!isObject(content) || !Array.isArray(content.points)) return undefined
  const points = content.points.map(toNumbers)
  if (points.some((it) => it === undefined || (it.length !== 3 && it.length !== 6) || it.some(Number.isNaN))) {
    return undefined
  }
  const given = points as number[][]
  const positions = new Float32Array(given.length * 3)
  for (const [at, point] of given.entries()) positions.set(point.slice(0, 3), at * 3)
  const hasColours = given.some((it) => it.length === 6)
  const colours = hasColours ? given.map((it) => (it.length === 6 ? toColour(it.slice(3), 255) : '')) : undefined
  const boxes = Array.isArray(content.boxes) ? content.boxes.filter(isObject) : []
  const lines = boxes.flatMap(({ segments, color }) => {
    const colour = toNumbers(color)
    const listed = Array.isArray(segments) ? segments : []
    return listed.flatMap((segment) => {
      const ends = Array.isArray(segment) ? segment.map(toNumbers) : []
      const isWhole =
        ends.length > 0 && ends.every((it) => it !== undefined && it.length >= 3 && !it.some(Number.isNaN))
      return isWhole ? [{ points: ends as number[][], colour: colour?.length === 3 ? toColour(colour, 1) : '' }] : []
    })
  })
  return { scene: { positions, colours: colours?.map((it) => it || uncoloured), lines }, boxes: boxes.length }
}

function toColour(parts: number[], scale: number): string {
  const [red = 0, green = 0, blue = 0] = parts.map((it) => Math.round(Math.min(255, Math.max(0, it * scale)) || 0))
  return `rgb(${red} ${green} ${blue})`
}

export function Points({ points, name }: { points: Shape; name: string }) {
  const { scene, boxes } = points
  const label = useMemo(() => {
    const count = toCountOf(scene.positions.length / 3, 'point')
    return `${name}: ${count}${boxes > 0 ? ` and ${boxes === 1 ? '1 box' : `${boxes} boxes`}` : ''}`
  }, [scene, boxes, name])
  return <Space scene={scene} label={label} />
}
