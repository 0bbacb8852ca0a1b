import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** Each run of a command writes a JSON file here, which `npm run bench:report` reads. */
export const resultsFolder = fileURLToPath(new URL('../results/', import.meta.url))

export type Kept<Results> = { command: string; at: string; machine: string; options: unknown; results: Results }

/** @returns the path of the file, relative to the working folder */
export async function keepResults(command: string, options: unknown, results: unknown): Promise<string> {
  const kept: Kept<unknown> = { command, at: new Date().toISOString(), machine: describeMachine(), options, results }
  const file = path.join(resultsFolder, `${kept.at.replaceAll(':', '-')}.json`)
  await mkdir(resultsFolder, { recursive: true })
  await writeFile(file, `${JSON.stringify(kept, null, 2)}\n`)
  return path.relative(process.cwd(), file)
}

/** All that was kept, the oldest first. */
export async function readResults(): Promise<Kept<unknown>[]> {
  const names = await readdir(resultsFolder).catch(() => [])
  const files = names.filter((name) => name.endsWith('.json')).toSorted()
  const kept = await Promise.all(files.map((name) => readFile(path.join(resultsFolder, name), 'utf8')))
  return kept.map((text) => JSON.parse(text) as Kept<unknown>).filter((it) => it.command !== undefined)
}

export function describeMachine(): string {
  const processors = cpus()
  return `${processors.length} x ${processors[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`
}
