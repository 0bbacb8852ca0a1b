import { getRouteApi, useLocation } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { LineFilter } from '../../api/output.ts'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { OutputView } from '../output/output-view.tsx'
import { useLineCount } from '../output/use-lines.ts'

const route = getRouteApi('/$workspace/$project/$key')

/** The output of a run. `#L123` in the address is a line. */
export function OutputTab({ experimentKey, isLive }: { experimentKey: string; isLive: boolean }) {
  const { find, stderr, follow = true } = route.useSearch()
  const filter = useMemo(
    (): LineFilter => ({ ...(find && { search: find }), ...(stderr && { stderr }) }),
    [find, stderr],
  )
  const { data, error, refetch } = useLineCount({ experimentKey, filter, isLive })
  const navigate = route.useNavigate()
  const hash = useLocation({ select: (it) => it.hash })
  const line = /^L([1-9]\d*)$/.exec(hash)?.[1]
  if (error && data === undefined) return <ErrorPlace error={error} onRetry={refetch} />
  if (data === undefined) return <LoadingPlace rows={12} />
  if (data.total === 0) {
    return (
      <EmptyPlace title="No output yet">
        What the training program prints appears here, with its colours, as soon as the client sends it.
      </EmptyPlace>
    )
  }
  return (
    <OutputView
      experimentKey={experimentKey}
      isLive={isLive}
      total={data.total}
      found={data.found}
      filter={filter}
      onFilter={({ search, stderr }) =>
        navigate({
          search: ({ find: _find, stderr: _stderr, ...rest }) => ({
            ...rest,
            ...(search && { find: search }),
            ...(stderr && { stderr }),
          }),
          hash,
          replace: true,
        })
      }
      line={line === undefined ? undefined : Number(line)}
      onLine={(it) =>
        navigate({
          search: (old) => old,
          hash: it === undefined ? '' : `L${it}`,
          hashScrollIntoView: false,
          replace: true,
        })
      }
      isFollowing={isLive && follow}
      onFollow={(it) =>
        navigate({ search: ({ follow: _, ...rest }) => ({ ...rest, ...(!it && { follow: false }) }), replace: true })
      }
    />
  )
}
