import type { QueryClient } from '@tanstack/react-query'
import { redirect } from '@tanstack/react-router'

/**
 * Links that clients of MLflow print: `#/experiments/ID` and `#/experiments/ID/runs/ID` below the address of the service. They
 * lead to our page of it; what is not there, or not for this reader, leaves the home page.
 */
const link = /^#?\/experiments\/(\w+)(?:\/runs\/(\w+))?$/

export async function followMlflowLink(queryClient: QueryClient, hash: string): Promise<void> {
  const [, experiment, run] = link.exec(hash) ?? []
  if (experiment === undefined) return
  if (run !== undefined) {
    const { metadata } = await import('../api/run.ts')
    const found = await queryClient.ensureQueryData(metadata(run)).catch(() => undefined)
    if (!found) return
    const { workspaceName: workspace, projectName: project } = found
    throw redirect({
      to: '/$workspace/$project/$key',
      params: { workspace, project, key: run },
      hash: '',
      replace: true,
    })
  }
  const { call } = await import('../api/http.ts')
  const path = `api/2.0/mlflow/experiments/get?experiment_id=${experiment}`
  type Answer = { experiment: { name: string; workspace: string } }
  const found = (await call<Answer>('GET', path).catch(() => undefined))?.experiment
  if (!found) return
  const { workspace, name } = found
  // Of another workspace than the reader's default one it has that one's name before its own.
  const project = name.startsWith(`${workspace}/`) ? name.slice(workspace.length + 1) : name
  throw redirect({ to: '/$workspace/$project', params: { workspace, project }, hash: '', replace: true })
}
