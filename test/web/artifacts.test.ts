import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { noBrowser } from '../kit/browser.ts'
import { createRegistryClient } from '../kit/clients/registry.ts'
import { eventually } from '../kit/eventually.ts'
import { openTestService, uniqueName } from '../kit/service.ts'
import { expectAccessible } from './kit/accessible.ts'
import { useBrowser } from './kit/use-browser.ts'

const attack = '<img src=x onerror="document.title=\'taken\'">'

describe.skipIf(noBrowser)(`files, artifacts and lineage (${noBrowser ?? 'in Chromium'})`, () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const browser = useBrowser(() => service?.close())
  let page: Page
  let projectName: string
  let maker: string
  let user: string

  const post = async (path: string, body: object) => {
    const answer = await service.client.post(path, body)
    expect(answer.status, answer.text).toBe(200)
    return answer.body
  }
  const upload = async (query: Record<string, string>, content: string) => {
    const path = `/write/experiment/upload-asset?${new URLSearchParams(query)}`
    const answer = await service.client.postRaw(path, content, {
      headers: { 'content-type': 'application/octet-stream' },
    })
    expect(answer.status, answer.text).toBe(200)
    return answer.body.assetId as string
  }
  async function aVersion(experimentKey: string, artifactName: string, files: Record<string, string>, more = {}) {
    const { artifactVersionId } = await post('/write/artifacts/upsert', { experimentKey, artifactName, ...more })
    for (const [fileName, text] of Object.entries(files)) {
      await upload({ experimentKey, artifactVersionId: artifactVersionId as string, fileName }, text)
    }
    await post('/write/artifacts/state', { experimentKey, artifactVersionId, state: 'CLOSED' })
    return artifactVersionId as string
  }
  const use = (versionId: string, consumerExperimentKey: string) =>
    service.client.get(`/artifacts/version?${new URLSearchParams({ versionId, consumerExperimentKey })}`)

  beforeAll(async () => {
    service = await openTestService()
    projectName = uniqueName('files')
    maker = await service.client.createExperiment({ projectName, experimentName: 'maker' })
    user = await service.client.createExperiment({ projectName, experimentName: attack })
    const context = await browser.get().openContext(service.url, service.apiKey)
    page = await context.newPage()
  })

  it('the artifacts of a workspace without any say how to make one', async () => {
    await page.goto(`/${service.workspaceName}/-/artifacts`)
    await page.getByRole('heading', { name: 'No artifact' }).waitFor()
    await expectAccessible(page)
    await page.goto(`/${service.workspaceName}/${projectName}/${maker}?tab=lineage`)
    await page.getByRole('heading', { name: 'No lineage' }).waitFor()
    await expectAccessible(page)
  })

  it('files are a tree by keyboard, with sizes, a search, previews and downloads', async () => {
    await upload(
      { experimentKey: maker, fileName: 'data/raw/rows.csv', type: 'dataframe' },
      `a,b\n"${attack.replaceAll('"', '""')}",2\n`,
    )
    await upload({ experimentKey: maker, fileName: 'config.json' }, '{"lr":0.1}')
    await upload({ experimentKey: maker, fileName: `${attack.replaceAll('/', '')}.py` }, 'import torch')
    await upload({ experimentKey: maker, fileName: 'weights.bin' }, 'a\0b')
    await page.goto(`/${service.workspaceName}/${projectName}/${maker}?tab=files`)
    await page.getByText('4 files, ').waitFor()
    await page.getByRole('button', { name: /^data/ }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: /^raw/ }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: /rows\.csv/ }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('cell', { name: '<img' }).waitFor()
    await expectAccessible(page)
    const zipHref = await page.getByRole('link', { name: 'Download the folder data/raw' }).getAttribute('href')
    expect((await (await page.request.get(zipHref as string)).body()).subarray(0, 2).toString()).toBe('PK')
    const all = await page.getByRole('link', { name: 'Download all' }).getAttribute('href')
    expect((await (await page.request.get(all as string)).body()).toString('latin1')).toContain('config.json')
    await page.getByRole('link', { name: /config\.json/ }).click()
    await page.locator('main pre').getByText('"lr": 0.1').waitFor()
    await page.getByRole('link', { name: /weights\.bin/ }).click()
    await page.getByText('It holds no text').waitFor()
    await page.getByRole('link', { name: /\.py/ }).click()
    await page.locator('main pre').getByText('import').waitFor()
    await page.reload()
    await page.locator('main pre').getByText('import').waitFor()
    await page.getByLabel('Search files').fill('RAW/')
    await page.getByRole('link', { name: 'data/raw/rows.csv' }).waitFor()
    await page.getByText('1 file, ').waitFor()
    await page.getByLabel('Search files').fill('nothing')
    await page.getByText('No file has it in its name.').waitFor()
    expect(await page.locator('main img').count()).toBe(0)
  })

  it('an artifact has versions with aliases and states, their files, what changed, and who uses them', async () => {
    const metadata = { versionMetadata: JSON.stringify({ rows: 3, [attack]: attack }) }
    await aVersion(
      maker,
      'images',
      { 'train.csv': 'a\n1\n', 'gone.txt': 'x' },
      { artifactType: 'dataset', description: attack },
    )
    const second = await aVersion(
      maker,
      'images',
      { 'train.csv': 'a\n1\n2\n', 'new/page.html': '<script>document.title = "taken"</script>' },
      { alias: [attack, 'clean'], versionTags: ['t'], ...metadata },
    )
    await post('/write/artifacts/upsert', { experimentKey: maker, artifactName: 'images' })
    await use(second, user)
    await page.goto(`/${service.workspaceName}/-/artifacts`)
    await page.getByRole('link', { name: 'images' }).waitFor()
    await expectAccessible(page)
    await page.getByLabel('Search artifacts').fill('none of it')
    await page.getByRole('heading', { name: 'No artifact matches' }).waitFor()
    await page.getByLabel('Search artifacts').fill('IMA')
    await page.getByRole('link', { name: 'images' }).click()
    await page.getByRole('row', { name: /3\.0\.0 open/ }).waitFor()
    await page.getByRole('row', { name: /2\.0\.0 closed.*clean.*Latest/ }).waitFor()
    await expectAccessible(page)
    await page.getByRole('link', { name: '2.0.0' }).click()
    await page.getByRole('heading', { name: 'images 2.0.0' }).waitFor()
    await page.getByRole('link', { name: attack }).waitFor()
    const labels = page.getByRole('list', { name: 'Aliases and tags' })
    await labels.getByRole('button', { name: 'Add an alias' }).focus()
    await page.keyboard.press('Enter')
    await page.getByLabel('New alias').fill('  chosen ')
    await expectAccessible(page)
    await page.keyboard.press('Enter')
    expect(await page.locator(':focus').textContent()).toBe('Add an alias')
    await labels.getByRole('button', { name: 'Remove the alias chosen' }).waitFor()
    await labels.getByRole('button', { name: 'Remove the tag t' }).click()
    await labels.getByRole('button', { name: 'Remove the tag t' }).waitFor({ state: 'detached' })
    expect(await labels.getByRole('button', { name: /Latest/ }).count()).toBe(0)
    await eventually(async () => {
      const { body } = await service.client.get(
        `/artifacts/get?${new URLSearchParams({ workspace: service.workspaceName, artifactName: 'images' })}`,
      )
      const versions = body.versions as { artifactVersionId: string; alias: string[]; tags: string[] }[]
      const labelled = versions.find((it) => it.artifactVersionId === second)
      expect(labelled?.alias.toSorted()).toEqual([attack, 'clean', 'chosen', 'Latest'].toSorted())
      expect(labelled?.tags).toEqual([])
    })
    await page.getByLabel('Compared with').selectOption('1.0.0')
    await page.getByText('Since 1.0.0: 1 added, 1 removed, 1 changed, 0 unchanged.').waitFor()
    await page.getByRole('row', { name: 'train.csv changed 4 B 6 B' }).waitFor()
    await page.reload()
    await page.getByRole('row', { name: 'gone.txt removed' }).waitFor()
    await page.getByRole('button', { name: /^new/ }).click()
    await page.getByRole('link', { name: /page\.html/ }).click()
    await page.locator('main iframe[sandbox="allow-scripts"]').waitFor()
    await expectAccessible(page)
    await page.emulateMedia({ colorScheme: 'dark' })
    await expectAccessible(page, ['color-contrast'])
    await page.emulateMedia({ colorScheme: null })
    expect(await page.title()).not.toBe('taken')
    await page.goto(`/${service.workspaceName}/-/artifacts/images/9.9.9`)
    await page.getByRole('heading', { name: 'No such version' }).waitFor()
  })

  it('a lineage leads from a run over an artifact to a model, as a graph and as a list', async () => {
    const registry = createRegistryClient(service)
    const source = await registry.aSource()
    const version = await aVersion(user, 'features', { f: '1' })
    await use(version, source.experimentKey)
    const { registryModelName: model } = await registry.aModel({ stages: ['production'] }, source)
    await page.goto(`/${service.workspaceName}/${projectName}/${maker}?tab=lineage`)
    const graph = page.getByRole('region', { name: 'Lineage' })
    await graph.getByRole('link', { name: `${model} model · 1.0.0 · production` }).waitFor()
    await page.getByText('3 runs, 4 artifact versions, 1 model version').waitFor()
    await expectAccessible(page)
    await page.emulateMedia({ colorScheme: 'dark' })
    await expectAccessible(page, ['color-contrast'])
    await page.emulateMedia({ colorScheme: null })
    await graph.getByRole('link', { name: /^features unknown/ }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'features 1.0.0' }).waitFor()
    await page.getByRole('link', { name: 'Lineage' }).click()
    await page.getByRole('button', { name: 'List' }).click()
    await page.getByLabel('Search the lineage').fill('FEATURES')
    const row = page.getByRole('row', { name: /^features 1\.0\.0/ })
    await row.getByRole('link', { name: attack }).waitFor()
    await expectAccessible(page)
    await page.goto(`/${service.workspaceName}/-/models/${model}/1.0.0`)
    await page.getByRole('link', { name: 'Lineage' }).click()
    await graph.getByRole('link', { name: /^maker run/ }).click()
    await page.getByRole('heading', { name: 'maker' }).waitFor()
    expect(await page.title()).not.toBe('taken')
  })

  it('many of a kind are a stack that opens; more than are shown are said to be there', async () => {
    const many = await service.client.createExperiment({ projectName, experimentName: 'many' })
    const versions = await aVersion(many, 'wide', { a: '1' })
    for (let at = 0; at < 6; at++) {
      await use(versions, await service.client.createExperiment({ projectName, experimentName: `user ${at}` }))
    }
    await page.goto(`/${service.workspaceName}/${projectName}/${many}?tab=lineage`)
    const stack = page.getByRole('button', { name: /^6 runs/ })
    await stack.focus()
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: /^user 5 run in/ }).waitFor()
    await page.getByRole('button', { name: 'Close groups' }).click()
    await stack.waitFor()
    await page.getByRole('button', { name: 'Fit' }).click()
    await page.getByRole('button', { name: 'Zoom out' }).click()
    await expectAccessible(page)
  })
})
