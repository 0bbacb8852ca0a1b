import { readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'

/** A file of the export. Its size and checksum are there once it is whole. */
const file = z.object({
  name: z.string(),
  /** What the service calls the part; absent for what comes as one. */
  part: z.string().optional(),
  /** Unknown before what comes as one is read. */
  rows: z.int().optional(),
  bytes: z.int().optional(),
  sha256: z.string().optional(),
})

const manifest = z.object({
  url: z.string(),
  workspace: z.string(),
  project: z.string(),
  format: z.string(),
  /** By what is exported; `until` in ms since the Unix epoch. */
  exports: z.record(z.string(), z.object({ until: z.int(), files: z.array(file) })),
})

export type ExportFile = z.output<typeof file>
export type ExportManifest = z.output<typeof manifest>

const toPath = (folder: string) => path.join(folder, 'manifest.json')

/** Undefined when the folder has none. @throws Error when there is a file that is not a manifest */
export async function readManifest(folder: string): Promise<ExportManifest | undefined> {
  const text = await readFile(toPath(folder), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (text === undefined) return undefined
  try {
    return manifest.parse(JSON.parse(text))
  } catch {
    throw new Error(`${toPath(folder)} is not the manifest of an export: choose another folder with --out.`)
  }
}

/** Replaces the file as a whole, so that a killed export leaves the one before. */
export async function writeManifest(folder: string, given: ExportManifest): Promise<void> {
  const partial = `${toPath(folder)}.partial`
  await writeFile(partial, `${JSON.stringify(given, undefined, 2)}\n`, { flush: true })
  await rename(partial, toPath(folder))
}
