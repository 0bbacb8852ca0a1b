/** The state of the search in the output of a project, as its URL keeps it. */
export type OutputSearch = { find?: string; stderr?: true }

export function parseOutputSearch({ find, stderr }: Record<string, unknown>): OutputSearch {
  return {
    ...(find !== undefined && find !== '' && { find: String(find) }),
    ...(stderr === true && { stderr }),
  }
}
