/** What the address of the list of artifacts holds. */
export type ArtifactsSearch = { search?: string; type?: string; project?: string }

export const parseArtifactsSearch = ({ search, type, project }: Record<string, unknown>): ArtifactsSearch => ({
  ...(search !== undefined && search !== '' && { search: String(search) }),
  ...(type !== undefined && { type: String(type) }),
  ...(project !== undefined && { project: String(project) }),
})

/** What the address of a version holds: the file that is shown, and the version that it is compared with. */
export type VersionSearch = { file?: string; with?: string }

export const parseVersionSearch = ({ file, with: other }: Record<string, unknown>): VersionSearch => ({
  ...(file !== undefined && { file: String(file) }),
  ...(other !== undefined && { with: String(other) }),
})
