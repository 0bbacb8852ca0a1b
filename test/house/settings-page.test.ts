import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { describeSettings } from '../../cli/settings/command.ts'

it('docs/settings.md is what the command prints', async () => {
  const page = await readFile(new URL('../../docs/settings.md', import.meta.url), 'utf8')
  const isNew = page === describeSettings()
  expect(isNew, 'run: npm run --silent svc -- settings --markdown > docs/settings.md').toBe(true)
})
