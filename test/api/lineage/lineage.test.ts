import { afterAll, beforeAll, expect, it } from 'vitest'
import { createRegistryClient } from '../../kit/clients/registry.ts'
import { uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'

let service: TwoUsers
beforeAll(async () => {
  service = await openTwoUsers()
})
afterAll(() => service?.close())

type Node = { node: string; kind: string; name: string; version: string | null; experimentKey: string | null }
type Lineage = { start: string; nodes: Node[]; edges: { from: string; to: string }[]; truncated: boolean }

const aRun = (experimentName: string) => service.client.createExperiment({ experimentName })

async function make(experimentKey: string, artifactName: string): Promise<string> {
  const opened = await service.client.post('/write/artifacts/upsert', { experimentKey, artifactName })
  const artifactVersionId = opened.body.artifactVersionId as string
  await service.client.post('/write/artifacts/state', { experimentKey, artifactVersionId, state: 'CLOSED' })
  return artifactVersionId
}

async function use(versionId: string, consumerExperimentKey: string) {
  const answer = await service.client.get(
    `/artifacts/version?${new URLSearchParams({ versionId, consumerExperimentKey })}`,
  )
  expect(answer.status, answer.text).toBe(200)
}

async function read(query: Record<string, string>): Promise<Lineage> {
  const answer = await service.client.get(`/lineage?${new URLSearchParams(query)}`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body as unknown as Lineage
}

/** Its edges by names, such as `prepare>data 1.0.0`. */
function toText({ nodes, edges }: Lineage): string[] {
  const names = new Map(nodes.map((it) => [it.node, it.version === null ? it.name : `${it.name} ${it.version}`]))
  return edges.map((it) => `${names.get(it.from)}>${names.get(it.to)}`).toSorted()
}

it('leads from a run over artifacts to registered versions, and back', async () => {
  const registry = createRegistryClient(service)
  const [data, features] = [uniqueName('data'), uniqueName('features')]
  const prepare = await aRun('prepare')
  const raw = await make(prepare, data)
  const clean = await aRun('clean')
  await use(raw, clean)
  const cleaned = await make(clean, features)
  const source = await registry.aSource()
  await use(cleaned, source.experimentKey)
  const model = await registry.aModel({}, source)
  const sibling = await aRun('sibling')
  await use(raw, sibling)
  const trainer = (await service.client.get(`/experiment/metadata?experimentKey=${source.experimentKey}`)).body
    .experimentName as string
  const [first, second, third] = [`${data} 1.0.0`, `${features} 1.0.0`, `${model.registryModelName} 1.0.0`]
  const line = [`prepare>${first}`, `${first}>clean`, `clean>${second}`, `${second}>${trainer}`, `${trainer}>${third}`]

  const ofModel = await read({ registryModelItemId: model.registryModelItemId })
  expect(toText(ofModel)).toEqual(line.toSorted())
  expect(ofModel.truncated).toBe(false)
  expect(toText(await read({ artifactVersionId: raw }))).toEqual([...line, `${first}>sibling`].toSorted())
  // What else came of its data is not the lineage of a run.
  expect(toText(await read({ experimentKey: clean }))).toEqual(line.toSorted())
  expect(toText(await read({ experimentKey: clean, direction: 'up' }))).toEqual(line.slice(0, 2).toSorted())
  const down = await read({ experimentKey: clean, direction: 'down' })
  expect(toText(down)).toEqual(line.slice(2).toSorted())
  expect(down.nodes.find((it) => it.node === down.start)).toMatchObject({ kind: 'run', experimentKey: clean })

  // Deleted things are left out, with what is only known through them.
  await service.client.get(`/write/experiment/delete?experimentKey=${clean}`)
  expect(toText(await read({ registryModelItemId: model.registryModelItemId }))).toEqual(line.slice(3).toSorted())
})

it('says when it is more than was asked for, and has the nearest then', async () => {
  const name = uniqueName('data')
  let run = await aRun('run 0')
  const first = run
  for (let at = 1; at < 6; at++) {
    const version = await make(run, name)
    run = await aRun(`run ${at}`)
    await use(version, run)
  }
  const all = await read({ experimentKey: first })
  expect([all.nodes.length, all.truncated]).toEqual([11, false])
  expect(await read({ experimentKey: first, nodesMax: '11' })).toMatchObject({ truncated: false })
  const few = await read({ experimentKey: run, nodesMax: '3' })
  expect([few.truncated, few.nodes.map((it) => it.name).toSorted()]).toEqual([
    true,
    [name, 'run 4', 'run 5'].toSorted(),
  ])
})

it('a run that uses what it made ends', async () => {
  const run = await aRun('circle')
  const version = await make(run, uniqueName('data'))
  await use(version, run)
  const found = await read({ experimentKey: run })
  expect([found.nodes.length, found.edges.length, found.truncated]).toEqual([2, 2, false])
})

it('begins at one thing that the caller may see', async () => {
  const refusal = async (query: Record<string, string>) =>
    (await service.client.get(`/lineage?${new URLSearchParams(query)}`)).body.msg
  expect(await refusal({})).toMatch(/^Name one of experimentKey/)
  expect(await refusal({ experimentKey: 'a', artifactVersionId: 'b' })).toMatch(/^Name one of experimentKey/)
  expect(await refusal({ artifactVersionId: 'none' })).toMatch(/no such version/)
  expect(await refusal({ registryModelItemId: 'none' })).toMatch(/no registry model version none/)
  expect(await refusal({ experimentKey: 'none', nodesMax: '0' })).toMatch(/^nodesMax: /)
  const run = await aRun('mine')
  const foreign = await service.stranger.get(`/lineage?experimentKey=${run}`)
  expect(foreign.status).toBe(400)
})
