import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = new URL('../../deploy/helm/svc/', import.meta.url)

export const chartFile = (path: string) => fileURLToPath(new URL(path, folder))

export const readChartFile = (path: string) => readFileSync(chartFile(path), 'utf8')

/** The paths that the chart's Ingress and HTTPRoute send to ingest; all others go to the api. */
export function listIngestPaths(): string[] {
  const { prefixes, writes, clients, monitoring } = JSON.parse(readChartFile('files/ingest-paths.json')) as Record<
    'prefixes' | 'writes' | 'clients' | 'monitoring',
    string[]
  >
  return [...prefixes.flatMap((prefix) => writes.map((path) => prefix + path)), ...clients, ...monitoring]
}

/** How an Ingress compares with `pathType: Prefix`: by whole parts of the path. */
export function matchesPrefix(path: string, prefix: string): boolean {
  return path === prefix || path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`)
}
