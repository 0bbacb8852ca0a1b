import { createAddressTricks, createForgedSignOn, createHeaderTricks, createPathTraversal } from './addresses.ts'
import { createBombs } from './bombs.ts'
import { createExpressions } from './expressions.ts'
import { createArchives, createFileNames } from './files.ts'
import { createForeignIds } from './foreign-ids.ts'
import { createMarkup } from './markup.ts'
import { createOutgoing } from './outgoing.ts'
import type { StartedProxy } from './proxies.ts'
import { createPipelining, createSmuggling } from './smuggling.ts'
import type { AttackClass, Target } from './target.ts'

/** All classes of attacks; those through a proxy for each that there is. */
export async function createClasses(target: Target, proxies: StartedProxy[]): Promise<AttackClass[]> {
  return [
    await createPipelining(target),
    await createSmuggling(target, target.url, 'hidden requests'),
    ...(await Promise.all(
      proxies.map(({ name, url }) => createSmuggling(target, url, `hidden requests behind ${name}`)),
    )),
    createAddressTricks(target),
    createPathTraversal(target),
    createHeaderTricks(target),
    createForgedSignOn(target),
    createBombs(target),
    await createFileNames(target),
    createArchives(target),
    await createOutgoing(target),
    await createMarkup(target),
    await createForeignIds(target),
    await createExpressions(target),
  ]
}
