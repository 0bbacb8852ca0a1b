import { useSyncExternalStore } from 'react'

/** The reader's choice of colours; `system` follows the machine. Kept in this browser. */
export type Theme = 'light' | 'dark' | 'system'

const stored = 'svc.theme'
const listeners = new Set<() => void>()
const systemIsDark = matchMedia('(prefers-color-scheme: dark)')

function listen(listener: () => void) {
  listeners.add(listener)
  systemIsDark.addEventListener('change', listener)
  addEventListener('storage', listener)
  return () => {
    listeners.delete(listener)
    systemIsDark.removeEventListener('change', listener)
    removeEventListener('storage', listener)
  }
}

function findTheme(): Theme {
  const { theme } = document.documentElement.dataset
  return theme === 'light' || theme === 'dark' ? theme : 'system'
}

export function setTheme(theme: Theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
  try {
    localStorage.setItem(stored, theme)
  } catch {
    // A browser that keeps nothing still changes this page.
  }
  for (const listener of listeners) listener()
}

export const useTheme = () => useSyncExternalStore(listen, findTheme)

/** Whether the page is dark now. What draws on a canvas draws again when this changes. */
export const useIsDark = () =>
  useSyncExternalStore(listen, () => {
    const theme = findTheme()
    return theme === 'system' ? systemIsDark.matches : theme === 'dark'
  })

/** The colour behind a custom property, such as `--line`, as a canvas understands it. */
export function resolveColour(property: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${property})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
