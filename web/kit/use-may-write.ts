import { useQuery } from '@tanstack/react-query'
import { session } from '../api/accounts.ts'
import { isEmbedded } from '../api/http.ts'

/**
 * Whether the service would take a change of this workspace from the reader: from editors and owners, also when a share link
 * brought them; not from viewers, auditors and readers with nothing but a share link. A page in a frame changes nothing.
 */
export function useMayWrite(workspaceName: string): boolean {
  const { data } = useQuery({ ...session, enabled: !isEmbedded })
  return !isEmbedded && (data?.writableWorkspaceNames.includes(workspaceName) ?? false)
}
