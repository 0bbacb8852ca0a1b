import { mayReadExperiment, mayReadOfWorkspace, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'

/**
 * What came from what. A run makes versions of artifacts and uses others; a version of a registered model is made from a run.
 * What the viewer may not see is left out, and with it what is only known through it.
 */
export type LineageKind = 'run' | 'artifact' | 'model'

export type LineageNode = {
  /** `<kind>:<id>`. */
  node: string
  kind: LineageKind
  workspaceName: string
  /** Of a run its own, of others that of the artifact or the model. */
  name: string
  /** Of a run only. */
  projectName: string | null
  experimentKey: string | null
  /** Of an artifact or a model. */
  version: string | null
  /** The id of an artifact version or of a registered version. */
  versionId: string | null
  artifactId: string | null
  artifactType: string | null
  state: string | null
  stages: string[]
}

export type LineageEdge = { from: string; to: string }

export type LineageDirection = 'up' | 'down'

const runs = `experiments e JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id`
const seenRun = `e.deleted_at IS NULL AND ${mayReadExperiment('e', 'p', 'w')}`
const artifacts = `artifact_versions v JOIN artifacts a ON a.id = v.artifact_id JOIN workspaces w ON w.id = a.workspace_id`
const seenArtifact = `v.deleted_at IS NULL AND ${mayReadOfWorkspace('a', 'w')}`
const models = `registry_versions r JOIN registry_models m ON m.id = r.model_id JOIN workspaces w ON w.id = m.workspace_id`
const seenModel = mayReadOfWorkspace('m', 'w')

const runId = `CASE WHEN o.kind = 'run' THEN o.id::bigint END`

/** The neighbours of a node `o` in one direction. */
const neighbours: Record<LineageDirection, string> = {
  up: `SELECT 'run' AS kind, e.id::text AS id FROM artifact_versions mine JOIN ${runs} ON true
       WHERE o.kind = 'artifact' AND mine.id = o.id AND e.id = mine.experiment_id AND ${seenRun}
     UNION ALL SELECT 'artifact', v.id FROM artifact_consumers c JOIN ${artifacts} ON v.id = c.artifact_version_id
       WHERE c.experiment_id = ${runId} AND ${seenArtifact}
     UNION ALL SELECT 'run', e.id::text FROM registry_versions mine JOIN ${runs} ON true
       WHERE o.kind = 'model' AND mine.id = o.id AND e.key = mine.experiment_key AND ${seenRun}`,
  down: `SELECT 'artifact' AS kind, v.id FROM ${artifacts} WHERE v.experiment_id = ${runId} AND ${seenArtifact}
     UNION ALL SELECT 'model', r.id FROM experiments mine JOIN ${models} ON true
       WHERE mine.id = ${runId} AND r.experiment_key = mine.key AND ${seenModel}
     UNION ALL SELECT 'run', e.id::text FROM artifact_consumers c JOIN ${runs} ON e.id = c.experiment_id
       WHERE o.kind = 'artifact' AND c.artifact_version_id = o.id AND ${seenRun}`,
}

type Start = { kind: LineageKind; id: string }

/** The first `limit` nodes that can be reached, the nearest first, the start included. Postgres stops looking after so many. */
async function reach(queries: Queries, viewer: Viewer, start: Start, direction: LineageDirection, limit: number) {
  return await queries.rows<Start>(
    `WITH RECURSIVE reached(kind, id) AS (SELECT $4::text, $5::text
       UNION SELECT n.kind, n.id FROM reached o CROSS JOIN LATERAL (${neighbours[direction]}) n)
     SELECT kind, id FROM reached LIMIT $6`,
    [...toViewerValues(viewer), start.kind, start.id, limit],
  )
}

/**
 * Everything that a node came from, and everything that came from it.
 *
 * @param nodesMax the nearest ones, by turns of both directions; `truncated`: there are more
 */
export async function findLineage(
  queries: Queries,
  viewer: Viewer,
  start: Start,
  { directions, nodesMax }: { directions: LineageDirection[]; nodesMax: number },
): Promise<{ nodes: LineageNode[]; edges: LineageEdge[]; truncated: boolean }> {
  const sides = await Promise.all(directions.map((it) => reach(queries, viewer, start, it, nodesMax + 1)))
  const found = new Map<string, Start>()
  // By turns, so that a long history does not push out what came of it.
  for (let at = 0; at <= nodesMax; at++) {
    for (const side of sides) {
      const node = side[at]
      if (node) found.set(`${node.kind}:${node.id}`, node)
    }
  }
  const kept = [...found.values()].slice(0, nodesMax)
  const ids = (kind: LineageKind) => kept.filter((it) => it.kind === kind).map((it) => it.id)
  const wanted = [ids('run'), ids('artifact'), ids('model')]
  const [nodes, edges] = await Promise.all([
    queries.rows<LineageNode>(
      `SELECT 'run:' || e.id AS node, 'run' AS kind, w.name AS "workspaceName", e.name, p.name AS "projectName",
         e.key AS "experimentKey", NULL AS version, NULL AS "versionId", NULL AS "artifactId", NULL AS "artifactType",
         NULL AS state, ARRAY[]::text[] AS stages FROM ${runs} WHERE e.id = ANY($1::bigint[])
       UNION ALL SELECT 'artifact:' || v.id, 'artifact', w.name, a.name, NULL, NULL, v.version, v.id, a.id, a.type, v.state,
         ARRAY[]::text[] FROM ${artifacts} WHERE v.id = ANY($2)
       UNION ALL SELECT 'model:' || r.id, 'model', w.name, m.name, NULL, NULL, r.version, r.id, NULL, NULL, NULL, r.stages
         FROM ${models} WHERE r.id = ANY($3)`,
      wanted,
    ),
    queries.rows<LineageEdge>(
      `SELECT 'run:' || v.experiment_id AS "from", 'artifact:' || v.id AS "to" FROM artifact_versions v
         WHERE v.id = ANY($2) AND v.experiment_id = ANY($1::bigint[])
       UNION ALL SELECT 'artifact:' || c.artifact_version_id, 'run:' || c.experiment_id FROM artifact_consumers c
         WHERE c.artifact_version_id = ANY($2) AND c.experiment_id = ANY($1::bigint[])
       UNION ALL SELECT 'run:' || e.id, 'model:' || r.id FROM registry_versions r
         JOIN experiments e ON e.key = r.experiment_key WHERE r.id = ANY($3) AND e.id = ANY($1::bigint[])`,
      wanted,
    ),
  ])
  return { nodes, edges, truncated: found.size > kept.length || sides.some((it) => it.length > nodesMax) }
}
