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
export type ExperimentWithValues = Experiment & { values: (string | null)[]; tags: string[] }

/** Which values to read. */
type Compared = { values: { kind: ValueKind; name: string }[]; withTags: boolean }

/** A page of a project's experiments, as in `listExperiments`, each with the values asked for, in that order. */
export async function listExperimentsWithValues(
  queries: Queries,
  viewer: Viewer,
  page: ExperimentPage,
  { values, withTags }: Compared,
): Promise<ExperimentWithValues[]> {
  return await queries.rows<ExperimentWithValues>(
    `SELECT ${experimentColumns},
       ARRAY(SELECT v.value FROM unnest($8::text[], $9::text[]) WITH ORDINALITY AS asked(kind, name, place)
         LEFT JOIN experiment_values v ON v.experiment_id = e.id AND v.kind = asked.kind AND v.name = asked.name
         ORDER BY asked.place) AS values,
       ARRAY(SELECT t.tag FROM experiment_tags t WHERE $10 AND t.experiment_id = e.id) AS tags
     ${experimentsWithPlace} WHERE ${ofPage}`,
    [...toPageValues(viewer, page), values.map((it) => it.kind), values.map((it) => it.name), withTags],
  )
}
