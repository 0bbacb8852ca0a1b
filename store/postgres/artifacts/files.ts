import { type Asset, assetColumns } from '../assets/assets.ts'
import type { Queries } from '../database.ts'

/** The files of a version in upload order. */
export async function listArtifactFiles(queries: Queries, versionId: string): Promise<Asset[]> {
  return await queries.rows<Asset>(`${selectFiles} ORDER BY place`, [versionId])
}

export async function findArtifactFile(
  queries: Queries,
  versionId: string,
  assetId: string,
): Promise<Asset | undefined> {
  return await queries.row<Asset>(`SELECT * FROM (${selectFiles}) AS file WHERE id = $2`, [versionId, assetId])
}

/** The files of the version `$1`, with their `place`. */
export const selectFiles = `SELECT ${assetColumns.replace(/^id/, 'asset_id AS id')}, place FROM artifact_files
    WHERE artifact_version_id = $1
  UNION ALL SELECT ${assetColumns}, place FROM assets WHERE artifact_version_id = $1
    AND (SELECT state FROM artifact_versions WHERE id = $1) <> 'CLOSED'`
