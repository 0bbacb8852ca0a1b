import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { containerImages } from '../kit/stores/shared-stores.ts'

const read = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8')

it('the images have the same Node version as the npm scripts', async () => {
  const { dependencies } = JSON.parse(await read('package.json')) as { dependencies: { node: string } }
  expect(await read('deploy/Dockerfile')).toContain(`ARG NODE_IMAGE=node:${dependencies.node}-`)
})

it('the compose file has the store images that tests in containers use', async () => {
  const used = [...(await read('deploy/compose.yaml')).matchAll(/^ {4}image: (.*)$/gm)].map((it) => it[1])
  expect(used).toEqual(expect.arrayContaining(Object.values(containerImages)))
})
