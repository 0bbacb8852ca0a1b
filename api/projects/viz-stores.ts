import { z } from 'zod'
import { toJsonAnswer } from '../../http/body/exact-json.ts'
import { indexedText, object, text } from '../../http/body/fields.ts'
import { anyKind, jsonObjectText } from '../../http/body/json-field.ts'
import { type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import { findVizStore, upsertVizStore } from '../../store/postgres/projects/viz-stores.ts'
import { type Access, unknownProject } from '../access.ts'

const topic = 'Projects'

const storeBytesMax = 1024 * 1024

const fields = {
  instanceId: indexedText(200).describe('any name of the visualization'),
  projectId: text(100, 1),
}

/** Stores of visualizations: names and values that a visualization saves. */
export function createVizStoreRoutes({ database, access }: { database: Database; access: Access }): Route[] {
  return [
    route({
      method: 'POST',
      path: '/write/viz-instance/store/save',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Saves the whole store of a visualization and replaces the earlier one.',
      body: object({
        ...fields,
        store: jsonObjectText(storeBytesMax).describe(`names and values of any kind; up to ${storeBytesMax} bytes`),
      }),
      answer: z.object({ msg: z.literal('Stored') }),
      shape: 'envelope',
      async handle({ body: { instanceId, projectId, store }, caller }) {
        const project = await access.writableProject(caller, { projectId })
        if (!(await upsertVizStore(database, project.projectId, instanceId, store))) throw unknownProject()
        return { msg: 'Stored' as const }
      },
    }),

    route({
      method: 'GET',
      path: '/viz-instance/store',
      permission: 'reader',
      topic,
      summary: 'Reads the saved store of a visualization, or null.',
      query: object(fields),
      answer: z.object({ store: z.record(z.string(), z.unknown().meta({ type: anyKind })).nullable() }),
      shape: 'plain',
      async handle({ query: { instanceId, projectId }, caller }) {
        const project = await access.project(caller, { projectId })
        const content = await findVizStore(database, project.projectId, instanceId)
        return { store: content === undefined ? null : (toJsonAnswer(content) as Record<string, unknown>) }
      },
    }),
  ]
}
