import { post, read } from './http.ts'

/** Writes to experiments. A list of keys is worked off a few at a time. */

const atOnce = 6

export type Condition = 'archive' | 'delete' | 'restore' | 'stop'

export const changeCondition = (keys: string[], condition: Condition) =>
  forEach(keys, (experimentKey) => read(`/write/experiment/${condition}`, { experimentKey }))

export const addTags = (keys: string[], addedTags: string[]) =>
  forEach(keys, (experimentKey) => post('/write/experiment/tags', { experimentKey, addedTags }))

export const removeTags = (keys: string[], tags: string[]) =>
  forEach(keys, (experimentKey) => post('/write/experiment/tags/delete', { experimentKey, tags }))

export const moveExperiments = (experimentKeys: string[], targetWorkspaceName: string, targetProjectName: string) =>
  post('/write/experiment/move', { experimentKeys, targetWorkspaceName, targetProjectName, symlink: false })

/** Stops at the first error. What was done before it stays done. */
async function forEach(keys: string[], action: (key: string) => Promise<unknown>): Promise<void> {
  const left = [...keys]
  const work = async () => {
    for (let key = left.shift(); key !== undefined; key = left.shift()) await action(key)
  }
  await Promise.all(Array.from({ length: atOnce }, work))
}
