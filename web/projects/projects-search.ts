/** Which projects are shown besides the active ones: it is in the URL. */
export type ProjectsSearch = { archived?: boolean; deleted?: boolean }

export const parseProjectsSearch = ({ archived, deleted }: Record<string, unknown>): ProjectsSearch => ({
  ...(archived === true && { archived }),
  ...(deleted === true && { deleted }),
})
