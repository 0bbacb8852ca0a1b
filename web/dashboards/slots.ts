import type { ComponentType } from 'react'
import type { Content } from '../api/dashboards.ts'

type Place = { workspace: string; project: string }

/** Panels that other rooms draw. They fill the height of their place. */
export type Slots = {
  Chart: ComponentType<Place & { content: Extract<Content, { kind: 'chart' }> }>
  Runs: ComponentType<Place & { content: Extract<Content, { kind: 'runs' }> }>
}
