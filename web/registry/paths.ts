import { toPagePath } from '../kit/page-link.tsx'

/** The page of the model of this name that reports from production. */
export const toProductionPath = (workspace: string, model: string) =>
  `${toPagePath(workspace)}/-/production/${toPagePath(model)}`
