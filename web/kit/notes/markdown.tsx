import DOMPurify from 'dompurify'
import { Marked } from 'marked'
import { useEffect, useRef } from 'react'
import styles from './markdown.module.css'

/** The policy reports a style of its own when the text is parsed, before it is left out: none gets as far. */
const styleAttribute = /\sstyle\s*=\s*("[^"]*"|'[^']*'|[^\s>]+)/gi
const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }) => text.replaceAll(styleAttribute, ''),
    // Boxes of task lists are characters: inputs are left out.
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
  },
})

/** Markdown that people wrote. It is drawn from a sanitised tree: scripts, styles, frames and forms are left out. */
export function Markdown({ text }: { text: string }) {
  const frame = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const html = marked.parse(text, { async: false })
    const tree = DOMPurify.sanitize(html, {
      RETURN_DOM_FRAGMENT: true,
      USE_PROFILES: { html: true },
      FORBID_TAGS: [
        'style',
        'form',
        'input',
        'button',
        'textarea',
        'select',
        'video',
        'audio',
        'img',
        'picture',
        'source',
      ],
      FORBID_ATTR: ['style', 'class', 'id', 'name'],
    })
    for (const link of tree.querySelectorAll('a')) {
      link.target = '_blank'
      link.rel = 'noopener noreferrer'
    }
    frame.current?.replaceChildren(tree)
  }, [text])
  return <div ref={frame} className={styles.markdown} />
}
