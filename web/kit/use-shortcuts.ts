import { useEffect, useRef } from 'react'

/** Runs an action when its key is pressed, unless the reader types into a field or a dialog is open. */
export function useShortcuts(actions: Record<string, () => void>) {
  const latest = useRef(actions)
  latest.current = actions
  useEffect(() => {
    function onKeyDown(event: KeyboardEvent) {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return
      const target = event.target as HTMLElement
      if (target.closest('input:not([type="checkbox"]), textarea, select, [contenteditable], [role="menu"]')) return
      if (document.querySelector('dialog[open]')) return
      const action = Object.hasOwn(latest.current, event.key) ? latest.current[event.key] : undefined
      if (!action) return
      event.preventDefault()
      action()
    }
    addEventListener('keydown', onKeyDown)
    return () => removeEventListener('keydown', onKeyDown)
  }, [])
}
