import { createAddressTricks, createForgedSignOn, createHeaderTricks, createPathTraversal } from './addresses.ts'
import { createBombs } from './bombs.ts'
import { createExpressions } from './expressions.ts'
import { createArchives, createFileNames } from './files.ts'
import { createForeignIds } from './foreign-ids.ts'
import { createMarkup } from './markup.ts'
import { createOutgoing } from './outgoing.ts'
import { createPipelining, createSmuggling } from './smuggling.ts'
import type { AttackClass, Target } from './target.ts'

/** All classes of attacks; those through a proxy where there is one. */
export async function createClasses(target: Target, proxyUrl: string | undefined): Promise<AttackClass[]> {
  return [
    await createPipelining(target),
    await createSmuggling(target, target.url, 'hidden requests'),
    ...(proxyUrl ? [await createSmuggling(target, proxyUrl, 'hidden requests behind nginx')] : []),
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
