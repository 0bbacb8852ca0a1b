import { useNavigate, useSearch } from '@tanstack/react-router'
import type { AdminSearch } from './admin-search.ts'

/** The state of a page of the administration, which is its address, and how to change it. */
export function useAdminSearch() {
  const search = useSearch({ strict: false }) as AdminSearch
  const navigate = useNavigate()
  const change = (it: AdminSearch, { replace = true } = {}) =>
    void navigate({ to: '.', search: (old: AdminSearch) => ({ ...old, ...it }), replace })
  return { search, change }
}
