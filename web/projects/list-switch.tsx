import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { Checkbox } from '../kit/field.tsx'
import type { ProjectsSearch } from './projects-search.ts'

type Props = { from: '/' | '/$workspace'; field: keyof ProjectsSearch; label: string; count: number }

/** Says how many projects of a kind are hidden, and shows them. Without any there is nothing to say. */
export function ListSwitch({ from, field, label, count }: Props) {
  const isOn = getRouteApi(from).useSearch()[field] ?? false
  const navigate = useNavigate({ from })
  if (count === 0 && !isOn) return null
  return (
    <Checkbox
      checked={isOn}
      onChange={() => void navigate({ search: (it) => ({ ...it, [field]: !isOn || undefined }), replace: true })}
    >
      {label} ({count})
    </Checkbox>
  )
}
