import { baseUrl } from './http.ts'

/** What can be exported: the last part of its path. */
export type Exported = 'runs' | 'metrics' | 'system-metrics' | 'output' | 'events' | 'labels' | 'archive'

/** Names what is exported; undefined is left out. */
export type ExportScope = Record<string, string | number | boolean | undefined>

/** The address of an export. A link to it downloads a file of any size: the browser writes what arrives. */
export function toExportUrl(what: Exported, scope: ExportScope): string {
  const url = new URL(`api/rest/v2/export/${what}`, baseUrl)
  for (const [name, value] of Object.entries(scope)) {
    if (value !== undefined && value !== '') url.searchParams.set(name, String(value))
  }
  return url.href
}
