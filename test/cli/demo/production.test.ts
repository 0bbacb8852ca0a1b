import { afterAll, expect, it } from 'vitest'
import { eventually } from '../../kit/eventually.ts'
import { createClient } from '../../kit/http/client.ts'
import { expectPlainFailure } from '../../kit/processes/expect.ts'
import { aFolder, startUp, svc } from '../../kit/processes/svc.ts'

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterAll(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

it('svc demo production logs a model that drifts, and a repetition adds nothing', async () => {
  const up = await startUp(await aFolder(onClose), {}, onClose)
  const key = up.key as string
  const args = ['demo', 'production', '--url', up.url, '--key', key, '--json']
  const run = async () => {
    const { code, stdout, stderr } = await svc(args, {}, onClose)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    return JSON.parse(stdout) as { events: number; labels: number; duplicates: number; page: string }
  }
  const first = await run()
  expect(first).toMatchObject({ duplicates: 0, page: `${up.url}/default/-/production/digits` })
  expect(first.events).toBeGreaterThan(10_000)
  expect(first.labels).toBeGreaterThan(5_000)

  const client = createClient(up.url, { apiKey: key, workspaceName: 'default' })
  const query = 'workspaceName=default&modelName=digits'
  await eventually(async () => {
    const { body } = await client.get(`/mpm/v2/drift/map?${query}`)
    const features = body.features as { name: string; drifted: (boolean | null)[] }[]
    const share = (name: string, from: number, to: number) => {
      const some = features.find((it) => it.name === name)?.drifted.slice(from, to) ?? []
      return some.filter(Boolean).length / some.length
    }
    // The new scanner came a month ago; the height of the digits stays the same.
    expect(share('scanner', 0, 50)).toBe(0)
    expect(share('scanner', 62, 88)).toBe(1)
    expect(share('height', 0, 89)).toBeLessThan(0.2)
  }, 120_000)
  await eventually(async () => {
    const { body } = await client.get(`/mpm/v2/alerts/firings?${query}`)
    const names = (body.firings as { name: string }[]).map((it) => it.name)
    expect(new Set(names)).toEqual(new Set(['Images get darker', 'Edges are missing', 'Accuracy']))
  }, 120_000)
  const { body: registered } = await client.get(`/registry-model/items?${query}`)
  expect((registered.items as { version: string }[]).map((it) => it.version).toSorted()).toEqual(['1.0.0', '1.1.0'])

  const again = await run()
  // Of today there may be a few more by now.
  expect(again.events).toBeLessThan(20)
  expect(again.duplicates).toBeGreaterThanOrEqual(first.events + first.labels)
  const { body: rules } = await client.get(`/mpm/v2/alerts?${query}`)
  expect(rules.alerts).toHaveLength(3)
})

it('a demo that is not there is refused with the names of those that are', async () => {
  const outcome = await svc(['demo', 'nothing', '--key', 'k'], {}, onClose)
  expectPlainFailure(outcome, /there is no demo "nothing": "svc demo" or "svc demo production"/)
})
