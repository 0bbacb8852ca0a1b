import { randomInt } from 'node:crypto'

const qualities = 'amber brave calm deft eager fair gentle humble keen lively mellow noble polite quiet rapid steady'
const things =
  'anchor beacon cedar delta ember falcon glacier harbor island juniper kestrel lagoon meadow nebula otter pine'

/** The name of an experiment that was created without one: easy to say, and rarely repeated in a project. */
export function createReadableName(): string {
  return `${pick(qualities)}_${pick(things)}_${randomInt(1_000, 10_000)}`
}

function pick(words: string): string {
  const all = words.split(' ')
  return all[randomInt(all.length)] as string
}
