import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { runsOf } from '../../api/run.ts'
import { IconButton } from '../../kit/button.tsx'
import { DownArrowIcon, UpArrowIcon } from '../../kit/icons.tsx'
import { useShortcuts } from '../../kit/use-shortcuts.ts'
import styles from './run-page.module.css'

type Props = { workspace: string; project: string; experimentKey: string }

/** Goes to the run that was created before or after this one; the part that is open stays open. */
export function Neighbours({ workspace, project, experimentKey }: Props) {
  const { data = [] } = useQuery(runsOf(workspace, project))
  const navigate = useNavigate({ from: '/$workspace/$project/$key' })
  const at = data.findIndex((it) => it.experimentKey === experimentKey)
  const go = (by: number) => {
    const key = at < 0 ? undefined : data[at + by]?.experimentKey
    if (key !== undefined)
      void navigate({ params: (it) => ({ ...it, key }), search: ({ tab }) => (tab ? { tab } : {}) })
  }
  useShortcuts({ j: () => go(1), k: () => go(-1) })
  if (at < 0 || data.length < 2) return null
  return (
    <span className={styles.neighbours}>
      <IconButton label="Previous run (k)" disabled={at === 0} onClick={() => go(-1)}>
        <UpArrowIcon />
      </IconButton>
      <span className={styles.place}>
        {at + 1} of {data.length}
      </span>
      <IconButton label="Next run (j)" disabled={at === data.length - 1} onClick={() => go(1)}>
        <DownArrowIcon />
      </IconButton>
    </span>
  )
}
