/** What the address of the page says: the run that is looked at, if it is one. */
export type AlertsSearch = { run?: string }

export const parseAlertsSearch = ({ run }: Record<string, unknown>): AlertsSearch =>
  typeof run === 'string' && run !== '' ? { run } : {}
