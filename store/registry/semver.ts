/**
 * Version numbers as semver.org has them: three numbers, then perhaps `-` with what it comes before, then perhaps `+` with
 * how it was built.
 */
type Semver = { major: string; minor: string; patch: string; prerelease: string | undefined }

const identifier = String.raw`(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)`
const number = String.raw`(0|[1-9]\d*)`
const build = String.raw`(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?`
const pattern = new RegExp(`^${number}\\.${number}\\.${number}(?:-(${identifier}(?:\\.${identifier})*))?${build}$`)

/** A number of more digits than this has no place in `toPrecedence`. */
const charactersMax = 99

/** The parts of a version, or undefined for a text that is none. */
export function parseSemver(version: string): Semver | undefined {
  const [, major, minor, patch, prerelease] = version.length > charactersMax ? [] : (pattern.exec(version) ?? [])
  if (major === undefined || minor === undefined || patch === undefined) return undefined
  return { major, minor, patch, prerelease }
}

/**
 * A text for each version such that texts compared byte by byte are in the order of their versions: numbers after how many
 * digits they have, what comes before a release below it. How it was built has no part in the order.
 */
export function toPrecedence({ major, minor, patch, prerelease }: Semver): string {
  const release = [major, minor, patch].map(toSortable).join('')
  if (prerelease === undefined) return `${release}~`
  const identifiers = prerelease.split('.').map((it) => (/^\d+$/.test(it) ? `0${toSortable(it)}` : `1${it}`))
  return `${release}${identifiers.join('!')}`
}

const toSortable = (digits: string) => `${String(digits.length).padStart(2, '0')}${digits}`

/** The next patch; of what comes before a release, that release. */
export function nextPatch({ major, minor, patch, prerelease }: Semver): string {
  return `${major}.${minor}.${prerelease === undefined ? BigInt(patch) + 1n : patch}`
}
