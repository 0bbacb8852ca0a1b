import { queryOptions } from '@tanstack/react-query'
import { post, read } from './http.ts'

/** A named state of the page of a project, for everybody who may read the project. */
export type View = { id: string; name: string; search: Record<string, unknown> }

type StoredView = { templateId: string; templateName: string; v3: unknown }

/** Only those that this interface has saved: other clients keep views of their own. */
export const views = (projectId: string) =>
  queryOptions({
    queryKey: ['views', projectId],
    queryFn: async ({ signal }) =>
      (await read<{ views: StoredView[] }>('/views/get-all', { projectId }, { signal })).views.flatMap(toView),
  })

function toView({ templateId, templateName, v3 }: StoredView): View[] {
  const page = (v3 as { page?: unknown } | null)?.page
  if (typeof page !== 'object' || page === null) return []
  return [{ id: templateId, name: templateName, search: page as Record<string, unknown> }]
}

/** Makes a view, or replaces the one of this id. Resolves with its id. */
export async function saveView(
  projectId: string,
  { id, name, search }: Omit<View, 'id'> & { id?: string },
): Promise<string> {
  const content = { templateName: name, v3: { page: search } }
  const { templateId } = await post<StoredView>('/write/views/upsert', { projectId, templateId: id, ...content })
  return templateId
}

export const deleteView = (projectId: string, templateId: string) =>
  post('/write/views/delete', { projectId, templateId })
