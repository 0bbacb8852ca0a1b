import { defaultStringifySearch } from '@tanstack/react-router'
import { baseUrl, shareCode } from '../api/http.ts'
import type { ChartsProps } from '../kit/charts-slot.ts'
import { toast } from '../kit/toast.tsx'
import type { ChartState } from './chart-state.ts'
import type { Metric } from './use-lines.ts'

export type Copies = { link(metric: Metric, state: ChartState): void; frame(metric: Metric, state: ChartState): void }

/** What belongs to a page of many charts. */
const left = {
  search: undefined,
  size: undefined,
  closed: undefined,
  opened: undefined,
  first: undefined,
  full: undefined,
}

/** Copies the address of one chart alone, and the markup of a frame with it for notebooks and other pages. */
export function useCopies({ workspace, project, ofChart }: ChartsProps): Copies {
  function toAddress({ name, context }: Metric, state: ChartState, isFramed: boolean): string {
    const looks = Object.entries({ ...state, ...left }).filter(([, it]) => it !== undefined)
    const search = {
      ...ofChart,
      metric: name,
      context: context === '' ? undefined : context,
      charts: looks.length > 0 ? Object.fromEntries(looks) : undefined,
      shareCode: shareCode(),
    }
    const path = [workspace, project].map(encodeURIComponent).join('/')
    return new URL(`${isFramed ? '-/embed/' : ''}${path}/-/chart${defaultStringifySearch(search)}`, baseUrl).href
  }
  return {
    link: (metric, state) => void copy(toAddress(metric, state, false), 'Copied the link'),
    frame: (metric, state) =>
      void copy(
        `<iframe src="${toAddress(metric, state, true).replaceAll('&', '&amp;').replaceAll('"', '&quot;')}" width="720" height="420" style="border: 0" title="${toText(metric.name)}"></iframe>`,
        shareCode() === undefined
          ? 'Copied the frame. On other sites it needs the share link of the project: add its shareCode to the address.'
          : 'Copied the frame',
      ),
  }
}

const toText = (name: string) => name.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;')

async function copy(text: string, done: string) {
  try {
    await navigator.clipboard.writeText(text)
    toast(done)
  } catch {
    // Browsers lend the clipboard only to pages under TLS or on this machine, and not to every frame.
    toast(`This browser does not let the page copy. Copy it by hand: ${text}`, { kind: 'error' })
  }
}
