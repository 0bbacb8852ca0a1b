import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { readWrittenCosts } from './costs.ts'
import { assumptions, planCapacity } from './plan.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const capacity = (...options: string[]) =>
  spawnSync(process.execPath, ['bench/capacity/capacity.ts', ...options], { cwd: root, encoding: 'utf8' })

it('docs/capacity.md is what the command prints', async () => {
  const { stdout, status } = capacity()
  expect(status).toBe(0)
  expect(await readFile(`${root}docs/capacity.md`, 'utf8')).toBe(stdout)
})

it('a plan follows from the costs: ten times the load takes ten times what it costs', async () => {
  const costs = await readWrittenCosts()
  const [small, large] = [planCapacity(20_000, costs, assumptions), planCapacity(200_000, costs, assumptions)]
  expect(large.bytesPerDay).toBeCloseTo(10 * small.bytesPerDay)
  expect(small.bytesPerDay).toBeCloseTo(20_000 * assumptions.pointsPerGpu * 86_400 * costs.bytesPerPoint)
  const cores = (plan: typeof small, name: string) => plan.parts.find((it) => it.name === name)?.cores ?? 0
  expect(Math.abs(cores(large, 'ingest') - 10 * cores(small, 'ingest'))).toBeLessThan(10)
  // A component that is saturated at the peak has several processes; one that is not has the minimum.
  for (const { what, share } of large.limits.filter((it) => it.what.endsWith('process'))) {
    const processes = large.parts.find((it) => what.includes(it.name))?.processes ?? 0
    expect(processes).toBe(Math.max(2, Math.ceil(share)))
  }
  expect(large.limits.map((it) => it.pointsPerSecond)).toEqual(
    large.limits.map((it) => it.pointsPerSecond).toSorted((a, b) => a - b),
  )
})

it('assumptions are options, and what is no number is refused', () => {
  const { stdout } = capacity('--gpus', '300', '--points-per-gpu', '20', '--price-per-gib-disk', '0', '--json')
  const { plans, assumptions: assumed } = JSON.parse(stdout)
  expect(plans).toMatchObject([{ gpus: 300, pointsPerSecond: 6_000 }])
  expect(assumed).toMatchObject({ pointsPerGpu: 20, pricePerGiBDisk: 0 })
  expect(capacity('--gpus', 'many')).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('--gpus must be a number'),
  })
  expect(capacity('--busy-max', '0').stderr).toContain('--busy-max must be more than 0')
  expect(capacity('--help').stdout).toContain('--points-per-gpu 10')
})
