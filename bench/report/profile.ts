import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Measured } from '../contenders/contender.ts'
import { median } from './report.ts'

/**
 * Reads the CPU profiles that Node wrote, and distributes the measured microseconds per point of each process by where its
 * samples were taken: a package, a file of ours, or a part of Node. Module loading is left out, because it ends before the
 * first point.
 */
type Profile = {
  nodes: { id: number; callFrame: CallFrame; children?: number[] }[]
  samples: number[]
  timeDeltas: number[]
}

type CallFrame = { functionName: string; url: string; lineNumber: number }

/** A function called by its parent frame. */
export type Frame = {
  name: string
  file: string
  /** Microseconds in the function itself, and including its callees. */
  selfMicros: number
  totalMicros: number
  called: Frame[]
}

export type ProcessProfile = { process: string; microsPerPoint: number; root: Frame }

const linesMax = 28
const idle = new Set(['(idle)', '(root)'])
const loading = /^node:internal\/modules\/|^node:internal\/bootstrap/

/** The profile of each measured process of ours. */
export function readProfiles(folder: string, measured: Measured): Promise<ProcessProfile[]> {
  return readCpuProfiles(folder, (process) => median(measured.rounds.flatMap((it) => it.cpuMicros?.[process] ?? [])))
}

/** @param microsOf the measured microseconds per point of a process, or another total to distribute */
async function readCpuProfiles(folder: string, microsOf: (process: string) => number): Promise<ProcessProfile[]> {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.cpuprofile'))
  return await Promise.all(
    files.toSorted().map(async (file) => {
      const process = path.basename(file, '.cpuprofile')
      const profile = JSON.parse(await readFile(path.join(folder, file), 'utf8')) as Profile
      return { process, microsPerPoint: microsOf(process), root: toTree(profile) }
    }),
  )
}

export async function describeProfiles(folder: string, measured: Measured): Promise<string> {
  return describe(`${measured.scenario} on ${measured.queue}`, await readProfiles(folder, measured))
}

/** Like `readProfiles`, for processes that were measured differently. */
export async function describeCpuProfiles(
  folder: string,
  title: string,
  microsOf: (process: string) => number,
): Promise<string> {
  return describe(title, await readCpuProfiles(folder, microsOf))
}

function describe(title: string, profiles: ProcessProfile[]): string {
  return profiles.map((it) => describeProfile(`${title}: ${it.process}`, it)).join('\n')
}

function describeProfile(title: string, { root, microsPerPoint }: ProcessProfile): string {
  const lines = (sums: Map<string, number>) =>
    [...sums]
      .toSorted((a, b) => b[1] - a[1])
      .slice(0, linesMax)
      .map(([name, micros]) => {
        const share = micros / root.totalMicros
        return `  ${(share * 100).toFixed(1).padStart(5)} %  ${(share * microsPerPoint).toFixed(2).padStart(7)} µs  ${name}`
      })
  return [
    `\n${title} (${microsPerPoint.toFixed(2)} µs a point)`,
    ...lines(sumBy(root, ({ file }) => file)),
    '',
    ...lines(sumBy(root, ({ name, file }) => `${name} ${file}`)),
    '',
  ].join('\n')
}

/** Sums the time of functions themselves (without callees) by name. */
export function sumBy(root: Frame, toName: (frame: Frame) => string): Map<string, number> {
  const sums = new Map<string, number>()
  const visit = (frame: Frame) => {
    if (frame.selfMicros > 0) sums.set(toName(frame), (sums.get(toName(frame)) ?? 0) + frame.selfMicros)
    frame.called.forEach(visit)
  }
  visit(root)
  return sums
}

function toTree({ nodes, samples, timeDeltas }: Profile): Frame {
  const byId = new Map(nodes.map((it) => [it.id, it]))
  const selfMicros = new Map<number, number>()
  for (const [index, id] of samples.entries()) selfMicros.set(id, (selfMicros.get(id) ?? 0) + (timeDeltas[index] ?? 0))

  function toFrame(ids: number[]): Frame {
    const [first] = ids.map((id) => byId.get(id)) as Profile['nodes']
    const { callFrame } = first as Profile['nodes'][number]
    const isIdle = idle.has(callFrame.functionName)
    // Calls of one function from several lines of its caller are one frame.
    const children = ids.flatMap((id) => byId.get(id)?.children ?? []).filter((id) => !isLoading(id))
    const groups = Map.groupBy(children, (id) => toKey(byId.get(id)?.callFrame as CallFrame))
    const called = [...groups.values()].map(toFrame).toSorted((a, b) => b.totalMicros - a.totalMicros)
    const self = isIdle ? 0 : ids.reduce((sum, id) => sum + (selfMicros.get(id) ?? 0), 0)
    return {
      name: callFrame.functionName || '(anonymous)',
      file: toFile(callFrame),
      selfMicros: self,
      totalMicros: self + called.reduce((sum, it) => sum + it.totalMicros, 0),
      called,
    }
  }

  const isLoading = (id: number) => loading.test(byId.get(id)?.callFrame.url ?? '')
  return toFrame([(nodes[0] as Profile['nodes'][number]).id])
}

const toKey = ({ functionName, url, lineNumber }: CallFrame) => `${functionName} ${url}:${lineNumber}`

const root = new URL('../../', import.meta.url).href

function toFile({ url, functionName }: CallFrame): string {
  if (url === '') return functionName === '(garbage collector)' ? functionName : 'native'
  const inPackage = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)
  if (inPackage) return inPackage[1] as string
  return url.replace(root, '')
}
