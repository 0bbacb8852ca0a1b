/**
 * One colour per run, the same on every page, for every reader and after a reload: it follows from the key of the run alone.
 * So the colours of two runs may be alike: there are more runs than colours that an eye can tell apart, and a colour given out
 * by the order on one page would be another one on the next. Runs of like colours that are shown together differ by the dashes
 * of their lines instead. Dashes depend on who else is shown, but not on the order: sorting the table changes none.
 */

/** A run that is drawn on charts, by itself or in the line of its group. */
export type ShownRun = { experimentKey: string; name: string; group?: ShownGroup }

/** A group of runs. The key gives its line a colour, as that of a run does. */
export type ShownGroup = { key: string; name: string }

const hues = 36
const shades = 4
/** Lightness and chroma of each shade, on white and on black; all differ from the page by 3:1 or more. */
const onLight = [
  [0.6, 0.17],
  [0.47, 0.15],
  [0.61, 0.09],
  [0.53, 0.2],
] as const
const onDark = [
  [0.72, 0.15],
  [0.82, 0.12],
  [0.63, 0.16],
  [0.77, 0.08],
] as const

/** A CSS colour for lines and dots, for a dark or a light page. */
export function toRunColour(experimentKey: string, isDark: boolean): string {
  const [lightness, chroma, hue] = pick(experimentKey, isDark ? onDark : onLight)
  return `oklch(${lightness} ${chroma} ${hue})`
}

/** Lengths of lines and gaps in CSS pixels; the first is a line without gaps. */
export const dashes: readonly (readonly number[])[] = [[], [7, 3], [2, 3], [10, 3, 2, 3]]

/**
 * For each key the place in `dashes` that tells it from those of like colours. More runs of one colour than there are dashes
 * share them.
 */
export function toDashes(keys: Iterable<string>): Map<string, number> {
  const given: { dash: number; colours: Place[] }[] = []
  const found = new Map<string, number>()
  for (const key of [...new Set(keys)].sort()) {
    const colours = [onLight, onDark].map((shades) => toPlace(pick(key, shades)))
    const used = dashes.map(() => 0)
    for (const it of given) {
      const apart = Math.min(...colours.map((colour, theme) => toDistance(colour, it.colours[theme] as Place)))
      // The same colour is worse than any number of like ones.
      if (apart < alikeMax) (used[it.dash] as number) += apart === 0 ? sameWeight : 1
    }
    const dash = used.indexOf(Math.min(...used))
    given.push({ dash, colours })
    found.set(key, dash)
  }
  return found
}

/** The background of the dot that stands for a line: with stripes when the line has gaps. */
export function toSwatch(colour: string, dash = 0): string {
  if (dash === 0) return colour
  const [stripe, gap] = [
    [3, 2],
    [1.5, 1.5],
    [4, 1.5],
  ][(dash - 1) % 3] as [number, number]
  return `repeating-linear-gradient(90deg, ${colour} 0 ${stripe}px, transparent ${stripe}px ${stripe + gap}px)`
}

type Colour = readonly [lightness: number, chroma: number, hue: number]

/** Distances in Oklab below this are hard to tell apart on thin lines; neighbouring hues of one shade are within it. */
const alikeMax = 0.05

const sameWeight = 1_000

type Place = readonly [lightness: number, a: number, b: number]

function toPlace([lightness, chroma, hue]: Colour): Place {
  const angle = (hue * Math.PI) / 180
  return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)]
}

const toDistance = (a: Place, b: Place) => Math.sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2)

function pick(key: string, of: readonly (readonly [number, number])[]): Colour {
  const hash = toHash(key)
  const [lightness, chroma] = of[Math.floor(hash / hues) % shades] as readonly [number, number]
  return [lightness, chroma, (hash % hues) * (360 / hues)]
}

/** FNV-1a, then mixed: keys that differ in one character get colours that have nothing in common. */
function toHash(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  return (hash ^ (hash >>> 13)) >>> 0
}
