/** The columns that `insertFolded` fills. */
const foldedColumns =
  'model_id, kind, part, name, version, claim, first_place, count, received, timestamp_all, type_all, places, timestamps, types, numbers, texts'

/**
 * A statement that inserts values as chunks, one for each name and claim. `rows` is a query with the columns of `event_values`, in their
 * order.
 *
 * @param received when the events of a claim were accepted, in ms since the Unix epoch, as an expression
 */
export const insertFolded = (
  database: string,
  rows: string,
  received = 'min(its.timestamp)',
) => `INSERT INTO ${database}.event_value_chunks (${foldedColumns})
  WITH arraySort(groupArray((its.place, its.timestamp, its.type, its.number, its.text))) AS all, its.claim AS claim
  SELECT its.model_id, its.kind, its.part, its.name, its.version, claim, min(its.place) AS first_place, toUInt32(count()) AS count,
    ${received} AS received, min(its.timestamp) AS timestamp_all, min(its.type) AS type_all,
    if(arrayMap(it -> it.1, all) = arrayMap(at -> toUInt32(first_place + at), range(count)), [], arrayMap(it -> it.1, all)) AS places,
    if(min(its.timestamp) = max(its.timestamp), [], arrayMap(it -> it.2, all)) AS timestamps,
    if(min(its.type) = max(its.type), [], arrayMap(it -> it.3, all)) AS types,
    if(countIf(reinterpretAsUInt64(its.number) != 0) = 0, [], arrayMap(it -> it.4, all)) AS numbers,
    if(countIf(its.text != '') = 0, [], arrayMap(it -> it.5, all)) AS texts
  FROM (SELECT * FROM (${rows}) AS r) AS its(model_id, kind, version, part, name, timestamp, claim, place, type, number, text)
  GROUP BY its.model_id, its.kind, its.part, its.name, its.version, claim`
