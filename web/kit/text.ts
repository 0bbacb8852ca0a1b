/** Numbers and times as people read them. */

const locale = pickLocale()

/** The language of the browser; some headless ones name one that does not exist. */
function pickLocale(): string {
  try {
    return Intl.getCanonicalLocales(navigator.language)[0] ?? 'en'
  } catch {
    return 'en'
  }
}

const grouped = new Intl.NumberFormat(locale)
const dated = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'medium' })
const day = new Intl.DateTimeFormat(locale, { month: 'short', day: 'numeric' })
const dayOfYear = new Intl.DateTimeFormat(locale, { year: 'numeric', month: 'short', day: 'numeric' })

/** `12,345`. */
export const toCount = (count: number) => grouped.format(count)

/** `1 run`, `2 runs`. */
export const toCountOf = (count: number, noun: string) => `${toCount(count)} ${noun}${count === 1 ? '' : 's'}`

/** Five significant digits, and the shortest form that keeps them. */
export function toNumber(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '−∞'
  const size = Math.abs(value)
  if (value === 0) return '0'
  if (Number.isInteger(value) && size < 1e9) return grouped.format(value).replace('-', '−')
  const short = Number(value.toPrecision(5))
  const text = size >= 1e6 || size < 1e-4 ? short.toExponential() : String(short)
  return text.replace('e+', 'e').replaceAll('-', '−')
}

const seconds = { minute: 60, hour: 3_600, day: 86_400 }

/** `12 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`. */
export function toDuration(ms: number): string {
  const s = Math.max(0, ms) / 1000
  if (s < 10) return `${s.toFixed(1)} s`
  if (s < seconds.minute) return `${Math.round(s)} s`
  if (s < seconds.hour) return two(s, seconds.minute, 'min', 1, 's')
  if (s < seconds.day) return two(s, seconds.hour, 'h', seconds.minute, 'min')
  return two(s, seconds.day, 'd', seconds.hour, 'h')
}

function two(s: number, big: number, bigName: string, small: number, smallName: string): string {
  const count = Math.floor(s / big)
  const rest = Math.floor((s % big) / small)
  return rest === 0 ? `${count} ${bigName}` : `${count} ${bigName} ${rest} ${smallName}`
}

/** `just now`, `5 min ago`, `3 h ago`, `2 d ago`, then the date. */
export function toAgo(timeMs: number, nowMs = Date.now()): string {
  const s = (nowMs - timeMs) / 1000
  if (s < 45) return 'just now'
  if (s < seconds.hour) return `${Math.max(1, Math.round(s / seconds.minute))} min ago`
  if (s < seconds.day) return `${Math.round(s / seconds.hour)} h ago`
  if (s < 14 * seconds.day) return `${Math.round(s / seconds.day)} d ago`
  return new Date(timeMs).getFullYear() === new Date(nowMs).getFullYear()
    ? day.format(timeMs)
    : dayOfYear.format(timeMs)
}

/** `12 kB`, `3.4 MB`, with powers of 1,000. */
export function toBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  const units = ['kB', 'MB', 'GB', 'TB']
  const power = Math.min(Math.floor(Math.log10(bytes) / 3), units.length)
  return `${Number((bytes / 1_000 ** power).toPrecision(3))} ${units[power - 1]}`
}

const ofMemory = /^(.*\/)?sys\..*(memory|ram)/
const ofShare = /percent|util/

/** How the values of a metric are written: as bytes for the memory of a machine. */
export const toValueText = (metricName: string): ((value: number) => string) =>
  ofMemory.test(metricName) && !ofShare.test(metricName) ? toBytes : toNumber

/** The date and the time, to the second. */
export const toTime = (timeMs: number) => dated.format(timeMs)

export const toDay = (timeMs: number) => dayOfYear.format(timeMs)
