import { post } from './http.ts'

export type Suggestion = { text: string; is: 'field' | 'operator' | 'value' | 'word' }

/** What may replace the query from `from` to `to`, and where the query cannot be read. */
export type QueryCompletion = {
  error?: { message: string; at: number }
  from: number
  to: number
  suggestions: Suggestion[]
}

type Asked = { workspaceName: string; projectName: string; query: string; at: number; archived?: boolean }

export const readCompletion = (asked: Asked, signal?: AbortSignal) =>
  post<QueryCompletion>('/project/query-completion', asked, { signal })
