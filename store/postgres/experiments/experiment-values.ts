import type { Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'
import {
  type Experiment,
  type ExperimentPage,
  experimentColumns,
  experimentsWithPlace,
  ofPage,
  toPageValues,
  type ValueKind,
} from './experiments.ts'

/** An experiment with some of its values; an absent value is null. */
export type ExperimentWithValues = Experiment & {
  values: (string | null)[]
  tags: string[]
  system: (string | null)[]
}

/** Which values to read; `system`: fields of the system details. */
type Compared = { values: { kind: ValueKind; name: string }[]; system: string[]; withTags: boolean }

/** A page of a project's experiments, as in `listExperiments`, each with the values asked for, in that order. */
export async function listExperimentsWithValues(
  queries: Queries,
  viewer: Viewer,
  page: ExperimentPage,
  { values, system, withTags }: Compared,
): Promise<ExperimentWithValues[]> {
  return await queries.rows<ExperimentWithValues>(
    `SELECT ${experimentColumns},
       ARRAY(SELECT v.value FROM unnest($9::text[], $10::text[]) WITH ORDINALITY AS asked(kind, name, place)
         LEFT JOIN experiment_values v ON v.experiment_id = e.id AND v.kind = asked.kind AND v.name = asked.name
         ORDER BY asked.place) AS values,
       ARRAY(SELECT t.tag FROM experiment_tags t WHERE $11 AND t.experiment_id = e.id) AS tags,
       ARRAY(SELECT d.content::json ->> asked.name FROM unnest($12::text[]) WITH ORDINALITY AS asked(name, place)
         LEFT JOIN experiment_documents d ON d.experiment_id = e.id AND d.kind = 'system' ORDER BY asked.place) AS system
     ${experimentsWithPlace} WHERE ${ofPage(page)}`,
    [...toPageValues(viewer, page), values.map((it) => it.kind), values.map((it) => it.name), withTags, system],
  )
}
