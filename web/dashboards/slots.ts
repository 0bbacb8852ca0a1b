import type { ComponentType } from 'react'
import type { ContentOf } from '../api/dashboards.ts'
import type { Kind } from './panel-kinds.ts'

type Place = { workspace: string; project: string }

/** Panels that other rooms draw, by kind. They fill the height of their place. */
export type Slots = {
  [Of in Exclude<Kind, 'value' | 'file' | 'text'>]: ComponentType<Place & { content: ContentOf<Of> }>
}
