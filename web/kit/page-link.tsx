import { useRouter } from '@tanstack/react-router'
import type { ComponentProps } from 'react'
import { baseUrl } from '../api/http.ts'

/** The address of a page by the parts of its path, each of any text. */
export const toPagePath = (...parts: string[]) => parts.map(encodeURIComponent).join('/')

/** A link to a page by its path, for pages of other rooms: `toPagePath(workspace, project, key)`. */
export function PageLink({ path, ...rest }: Omit<ComponentProps<'a'>, 'href'> & { path: string }) {
  const router = useRouter()
  const { href } = new URL(path, baseUrl)
  return (
    <a
      href={href}
      {...rest}
      onClick={(event) => {
        rest.onClick?.(event)
        if (event.defaultPrevented || event.button !== 0) return
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
        event.preventDefault()
        router.history.push(href.slice(baseUrl.origin.length))
      }}
    />
  )
}
