import { Link } from '@tanstack/react-router'
import type { FileLinkProps } from './slots.ts'

/** Leads to the page of the run with a file that is shown. */
export function FileLink({ assetId, className, title, isChosen, children }: FileLinkProps) {
  return (
    <Link
      from="/$workspace/$project/$key"
      to="."
      search={(old) => ({ ...old, tab: 'files', file: assetId })}
      className={className}
      activeOptions={{ exact: true }}
      aria-current={isChosen ? 'true' : undefined}
      title={title}
    >
      {children}
    </Link>
  )
}
