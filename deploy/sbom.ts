/**
 * Prints the bill of materials of svc as CycloneDX 1.5: every npm package that the lock file installs for production, and those whose
 * code is in the pages of the web interface. Packages that only some platforms or the embedded stores need have the scope "optional".
 * The same sources print the same bytes.
 *
 *   node web/build.ts && node deploy/sbom.ts > sbom.cdx.json
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

type Component = {
  'bom-ref': string
  name: string
  version: string
  scope?: 'required' | 'optional'
  properties: { name: string; value: string }[]
}
type Dependency = { ref: string; dependsOn?: string[] }
type Sbom = {
  serialNumber: string
  metadata: { timestamp: string; component: Component }
  components: Component[]
  dependencies: Dependency[]
}

const root = path.resolve(import.meta.dirname, '..')
const developmentMark = 'cdx:npm:package:development'

const printed = execFileSync(
  'npm',
  ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'],
  {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 ** 2,
  },
)
process.stdout.write(`${JSON.stringify(toShipped(JSON.parse(printed)), null, 2)}\n`)

function toShipped(sbom: Sbom): Sbom {
  const inPages = readPackagesOfPages()
  const installed = readInstalled()
  const components = sbom.components
    .filter((it) => installed.has(`${it.name}@${it.version}`) || inPages.has(it.name))
    .map((it) => (isForDevelopment(it) ? toRequired(it) : it))
    .toSorted((a, b) => (a['bom-ref'] < b['bom-ref'] ? -1 : 1))
  const self = sbom.metadata.component
  const kept = new Set([self['bom-ref'], ...components.map((it) => it['bom-ref'])])
  const dependencies = sbom.dependencies
    .filter((it) => kept.has(it.ref))
    .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((it) => kept.has(it)).toSorted() }))
    .toSorted((a, b) => (a.ref < b.ref ? -1 : 1))
  const digest = createHash('sha256')
    .update(JSON.stringify([components, dependencies]))
    .digest('hex')
  return {
    ...sbom,
    serialNumber: `urn:uuid:${toUuid(digest)}`,
    metadata: {
      ...sbom.metadata,
      timestamp: new Date(Number(process.env.SOURCE_DATE_EPOCH ?? 0) * 1_000).toISOString(),
      // npm takes the name of the folder.
      component: { ...self, name: 'svc' },
    },
    components,
    dependencies,
  }
}

function isForDevelopment({ properties }: Component): boolean {
  return properties.some((it) => it.name === developmentMark)
}

function toRequired(it: Component): Component {
  return { ...it, scope: 'required', properties: it.properties.filter((of) => of.name !== developmentMark) }
}

/**
 * What the lock file installs for production, as `name@version`. npm lists a package once that stands at several paths, and marks it
 * "development" when the first of them is, so its mark does not tell.
 */
function readInstalled(): Set<string> {
  const { packages } = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { name?: string; version: string; dev?: boolean }>
  }
  const installed = Object.entries(packages).filter(([at, it]) => at !== '' && !it.dev)
  return new Set(installed.map(([at, it]) => `${it.name ?? at.replace(/.*node_modules\//, '')}@${it.version}`))
}

/** What the build of the pages took in; nothing where there are no pages. */
function readPackagesOfPages(): Set<string> {
  const file = path.join(root, 'web/dist/packages.json')
  return new Set(existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as string[]) : [])
}

/** A UUID of version 8, which has any digits but for the version and the variant. */
function toUuid(digest: string): string {
  const digits = `${digest.slice(0, 12)}8${digest.slice(13, 16)}8${digest.slice(17, 32)}`
  return digits.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5')
}
