import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Measured } from './contender.ts'
import { median } from './report.ts'

/**
 * Reads the CPU profiles that Node wrote, and shares out each process's measured microseconds per point by where the
 * samples were taken: the package, or the file of ours, or the part of Node.
 */
type Profile = {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number }; children?: number[] }[]
  samples: number[]
  timeDeltas: number[]
}

const linesMax = 28
const idle = new Set(['(idle)', '(root)'])

export async function describeProfiles(folder: string, measured: Measured): Promise<string> {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.cpuprofile'))
  const parts = files.map(async (file) => {
    const name = path.basename(file, '.cpuprofile')
    const profile = JSON.parse(await readFile(path.join(folder, file), 'utf8')) as Profile
    const micros = median(measured.rounds.flatMap((round) => round.cpuMicros?.[name] ?? []))
    return describeProfile(`${measured.scenario} on ${measured.queue}: ${name}`, profile, micros)
  })
  return (await Promise.all(parts)).join('\n')
}

function describeProfile(title: string, { nodes, samples, timeDeltas }: Profile, microsPerPoint: number): string {
  const places = new Map(nodes.map((it) => [it.id, it.callFrame]))
  const byFile = new Map<string, number>()
  const byFunction = new Map<string, number>()
  let busy = 0
  for (const [index, id] of samples.entries()) {
    const frame = places.get(id)
    if (!frame || idle.has(frame.functionName)) continue
    const delta = timeDeltas[index] ?? 0
    busy += delta
    add(byFile, toFile(frame), delta)
    add(byFunction, `${frame.functionName || '(anonymous)'} ${toFile(frame)}:${frame.lineNumber + 1}`, delta)
  }
  const lines = (parts: Map<string, number>) =>
    [...parts]
      .toSorted((a, b) => b[1] - a[1])
      .slice(0, linesMax)
      .map(([name, delta]) => {
        const share = delta / busy
        return `  ${(share * 100).toFixed(1).padStart(5)} %  ${(share * microsPerPoint).toFixed(2).padStart(7)} µs  ${name}`
      })
  return [`\n${title} (${microsPerPoint.toFixed(2)} µs a point)`, ...lines(byFile), '', ...lines(byFunction), ''].join(
    '\n',
  )
}

function add(sums: Map<string, number>, name: string, delta: number) {
  sums.set(name, (sums.get(name) ?? 0) + delta)
}

const root = new URL('../', import.meta.url).href

function toFile({ url, functionName }: { url: string; functionName: string }): string {
  if (url === '') return functionName === '(garbage collector)' ? functionName : 'native'
  const inPackage = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)
  if (inPackage) return inPackage[1] as string
  return url.replace(root, '')
}
