import { useQuery, useQueryClient } from '@tanstack/react-query'
import { baseUrl } from '../api/http.ts'
import { addShareCode, deleteShareCode, type Project, shareCodes } from '../api/projects.ts'
import { Button } from '../kit/button.tsx'
import { Dialog } from '../kit/dialog.tsx'
import { PlusIcon } from '../kit/icons.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { Snippet } from '../kit/snippet.tsx'
import { toastError } from '../kit/toast.tsx'
import styles from './share-project.module.css'

/** Links that show one project to anybody, without signing in. */
export function ShareProject({ project, onClose }: { project: Project; onClose(): void }) {
  const { projectId, workspaceName, projectName } = project
  const { data, error, refetch } = useQuery(shareCodes(projectId))
  const client = useQueryClient()
  const change = (work: Promise<unknown>) =>
    work.then(() => client.invalidateQueries(shareCodes(projectId))).catch(toastError)
  const toLink = (code: string) => {
    const url = new URL([workspaceName, projectName].map(encodeURIComponent).join('/'), baseUrl)
    url.searchParams.set('shareCode', code)
    return url.href
  }
  return (
    <Dialog title={`Share ${projectName}`} onClose={onClose} width={560}>
      <div className={styles.links}>
        <p>Whoever has a link reads this project and its runs without signing in, until the link is deleted.</p>
        {error ? (
          <ErrorPlace error={error} onRetry={refetch} />
        ) : data ? (
          data.map((code) => (
            <div key={code} className={styles.link}>
              <Snippet code={toLink(code)} label="Copy the link" />
              <Button
                size="small"
                aria-label={`Delete the link that ends with ${code.slice(-4)}`}
                onClick={() => change(deleteShareCode(projectId, code))}
              >
                Delete
              </Button>
            </div>
          ))
        ) : (
          <LoadingPlace rows={1} />
        )}
        <div>
          <Button look="primary" onClick={() => change(addShareCode(projectId))}>
            <PlusIcon size={14} /> New link
          </Button>
        </div>
      </div>
    </Dialog>
  )
}
