import { z } from 'zod'
import { integerBetween, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { findArtifactVersion } from '../../store/postgres/artifacts/versions.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { findLineage, type LineageKind } from '../../store/postgres/lineage/lineage.ts'
import { type Access, toViewer } from '../access.ts'
import { type ArtifactAccess, unknownVersion } from '../artifacts/access.ts'
import { artifactTopic } from '../artifacts/artifacts.ts'
import { findFacts } from '../registry/find.ts'

const nodesMaxDefault = 500
const nodesMaxMost = 2_000

const directions = ['both', 'up', 'down'] as const
const kinds = ['run', 'artifact', 'model'] as const satisfies LineageKind[]

const lineageAnswer = z.object({
  start: z.string().describe('the node that was asked for'),
  nodes: z.array(
    z.object({
      node: z.string().describe('its id in edges'),
      kind: z.enum(kinds),
      workspaceName: z.string(),
      name: z.string(),
      projectName: z.string().nullable().describe('of a run'),
      experimentKey: z.string().nullable().describe('of a run'),
      version: z.string().nullable().describe('of an artifact or a registered model'),
      versionId: z.string().nullable(),
      artifactId: z.string().nullable(),
      artifactType: z.string().nullable(),
      state: z.string().nullable().describe('of an artifact version'),
      stages: z.array(z.string()).describe('of a registered version'),
    }),
  ),
  edges: z.array(z.object({ from: z.string(), to: z.string().describe('what came of it, or used it') })),
  truncated: z.boolean().describe('true: there are more nodes than nodesMax, and the nearest ones were answered'),
})

type Deps = { reads: Queries; access: Access; artifacts: ArtifactAccess }

/** Which runs, artifact versions and registered versions came from which. */
export function createLineageRoutes({ reads, access, artifacts }: Deps): Route[] {
  type Asked = { experimentKey?: string; artifactVersionId?: string; registryModelItemId?: string }

  async function findStart(caller: Caller, asked: Asked): Promise<{ kind: LineageKind; id: string }> {
    const { experimentKey, artifactVersionId, registryModelItemId } = asked
    if ([experimentKey, artifactVersionId, registryModelItemId].filter((it) => it !== undefined).length !== 1) {
      throw new HttpError('badRequest', 'Name one of experimentKey, artifactVersionId and registryModelItemId.')
    }
    if (experimentKey !== undefined) {
      return { kind: 'run', id: String((await access.experiment(caller, experimentKey)).id) }
    }
    if (artifactVersionId !== undefined) {
      const artifact = await artifacts.artifact(caller, { versionId: artifactVersionId })
      const version = await findArtifactVersion(reads, artifact.id, { versionId: artifactVersionId })
      if (!version) throw unknownVersion()
      return { kind: 'artifact', id: version.id }
    }
    const id = registryModelItemId as string
    await findFacts(reads, caller, id)
    return { kind: 'model', id }
  }

  return [
    route({
      method: 'GET',
      path: '/lineage',
      permission: 'caller',
      topic: artifactTopic,
      summary:
        'Reads what a run, an artifact version or a registered version came from, and what came of it: runs make and use ' +
        'versions of artifacts, registered versions are made from runs. What this key may not see is left out.',
      query: object({
        experimentKey: optional(text(200, 1)),
        artifactVersionId: optional(text(500, 1)),
        registryModelItemId: optional(text(500, 1)),
        direction: optional(z.enum(directions, `must be one of ${directions.join(', ')}`)).describe(
          'up: what it came from; down: what came of it',
        ),
        nodesMax: optional(integerBetween(1, nodesMaxMost)).describe(`default ${nodesMaxDefault}`),
      }),
      answer: lineageAnswer,
      shape: 'plain',
      async handle({ query: { direction = 'both', nodesMax = nodesMaxDefault, ...asked }, caller }) {
        const start = await findStart(caller, asked as Asked)
        const both = direction === 'both' ? (['up', 'down'] as const) : [direction]
        const found = await findLineage(reads, toViewer(caller), start, { directions: [...both], nodesMax })
        return { start: `${start.kind}:${start.id}`, ...found }
      },
    }),
  ]
}
