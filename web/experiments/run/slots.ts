import type { ReactNode } from 'react'

/** What tabs of other rooms are given. */

export type FileLinkProps = {
  assetId: string
  className?: string
  title: string
  isChosen: boolean
  children: ReactNode
}

export type FilesProps = {
  of: { experimentKey: string }
  isLive: boolean
  /** The id of the file that is shown. */
  chosen: string | undefined
  FileLink(it: FileLinkProps): ReactNode
  empty: ReactNode
}

export type LineageProps = { of: { experimentKey: string }; asList: boolean; onList(asList: boolean): void }

export type MediaProps = {
  workspace: string
  project: string
  experimentKey: string
  name: string
  isLive: boolean
  state: Record<string, unknown>
  onState(change: Record<string, unknown>): void
}
