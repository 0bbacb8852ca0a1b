import type { z } from 'zod'
import { experimentKey, float64, int64, list, object } from '../../http/body/fields.ts'
import { type Point, positionFields } from './point.ts'

/**
 * The four kinds of resource usage. Each number becomes a point of its own series, named `sys.*`, which is read like any
 * metric.
 */

const gpusMax = 4_096
const cpusMax = 65_536

const bytes = int64.refine((value) => typeof value === 'number' && value >= 0, 'expected 0 to 2^53-1')
const percent = float64.refine((value) => value >= 0 && value <= 100, 'expected a percentage from 0 to 100')
const gpuId = int64.refine((value) => Number(value) >= 0, 'expected 0 or more')

const common = { experimentKey, ...positionFields }

export const gpuFields = object({
  ...common,
  gpus: list(
    object({ gpuId, freeMemory: bytes, usedMemory: bytes, totalMemory: bytes, gpuUtilization: percent }),
    gpusMax,
  ),
})
export const ramFields = object({ ...common, totalRam: bytes, usedRam: bytes })
export const cpuFields = object({ ...common, cpuPercentUtilization: list(percent, cpusMax) })
export const loadFields = object({ ...common, loadAverage: float64 })

/** Named values of one moment. */
export type Reading = [name: string, value: number | bigint][]

export function toGpuReading({ gpus }: z.output<typeof gpuFields>): Reading {
  return gpus.flatMap(
    (gpu): Reading => [
      [`sys.gpu.${gpu.gpuId}.gpu_utilization`, gpu.gpuUtilization],
      [`sys.gpu.${gpu.gpuId}.free_memory`, gpu.freeMemory],
      [`sys.gpu.${gpu.gpuId}.used_memory`, gpu.usedMemory],
      [`sys.gpu.${gpu.gpuId}.total_memory`, gpu.totalMemory],
    ],
  )
}

export function toRamReading({ totalRam, usedRam }: z.output<typeof ramFields>): Reading {
  return [
    ['sys.ram.total', totalRam],
    ['sys.ram.used', usedRam],
  ]
}

export function toCpuReading({ cpuPercentUtilization }: z.output<typeof cpuFields>): Reading {
  return cpuPercentUtilization.map((percent, cpu) => [`sys.cpu.percent.${String(cpu).padStart(2, '0')}`, percent])
}

export function toLoadReading({ loadAverage }: z.output<typeof loadFields>): Reading {
  return [['sys.load.average', loadAverage]]
}

type PointPosition = z.output<z.ZodObject<typeof positionFields>>

/** The fields that all four bodies have. */
export type SystemBody = { experimentKey: string } & PointPosition

/** The points of a reading, all with the same context, step, epoch and time. */
export function toSystemPoints(reading: Reading, position: PointPosition): Point[] {
  const { step, epoch, timestamp } = position
  const context = position.context ?? position.runContext ?? ''
  return reading.map(([metric, value]) => ({ metric, value: Number(value), context, step, epoch, timestamp }))
}
