/** Whether the panels can be changed. A dashboard `default` is the one that the project shows first. */
export type DashboardSearch = { edit?: true }

export const parseDashboardSearch = ({ edit }: Record<string, unknown>): DashboardSearch =>
  edit === true ? { edit } : {}
