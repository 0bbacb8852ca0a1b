import type { createExportClient } from '../export/client.ts'

type Client = ReturnType<typeof createExportClient>

export type Options = Record<string, string | boolean | undefined>

/** The service to talk to. */
export function readPlace(options: Options) {
  const text = (name: string) => (typeof options[name] === 'string' ? options[name] : undefined)
  const apiKey = text('key') ?? process.env.SVC_API_KEY ?? process.env.SVC_BOOTSTRAP_API_KEY
  if (!apiKey) throw new Error('the API key is missing: pass it with --key KEY, or set SVC_API_KEY.')
  return {
    url: text('url') ?? process.env.SVC_URL ?? `http://127.0.0.1:${process.env.SVC_PORT || 8080}`,
    apiKey,
    workspace: text('workspace'),
    json: options.json === true,
    text,
  }
}

/** The workspace that a key logs to by default. */
export const findDefaultWorkspace = (client: Client) =>
  client.get('account-details', {}, async (answer) => {
    return ((await answer.json()) as { defaultWorkspaceName: string }).defaultWorkspaceName
  })
