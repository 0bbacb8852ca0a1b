import bash from 'highlight.js/lib/languages/bash'
import json from 'highlight.js/lib/languages/json'
import python from 'highlight.js/lib/languages/python'
import typescript from 'highlight.js/lib/languages/typescript'
import xml from 'highlight.js/lib/languages/xml'
import yaml from 'highlight.js/lib/languages/yaml'
import { createLowlight } from 'lowlight'

/** Colours code. It answers a tree, never markup. Loaded with the first code that is shown. */

export type Piece = { text: string; kind?: string }

const lowlight = createLowlight({ bash, json, python, typescript, xml, yaml })
/** Larger files stay plain: colours would take longer than to read them. */
const charactersMax = 300_000

const languages: Record<string, string> = {
  py: 'python',
  ipynb: 'json',
  json: 'json',
  jsonl: 'json',
  ts: 'typescript',
  js: 'typescript',
  tsx: 'typescript',
  jsx: 'typescript',
  sh: 'bash',
  yaml: 'yaml',
  yml: 'yaml',
  html: 'xml',
  xml: 'xml',
  svg: 'xml',
}

/** The lines of a file, in coloured pieces. Its name tells the language; other files are plain. */
export function highlight(text: string, fileName: string): Piece[][] {
  const language = languages[fileName.split('.').at(-1)?.toLowerCase() ?? '']
  if (!language || text.length > charactersMax) return text.split('\n').map((it) => [{ text: it }])
  const lines: Piece[][] = [[]]
  collect(lowlight.highlight(language, text).children as Node[], undefined, lines)
  return lines
}

type Node = { type: string; value?: string; children?: Node[]; properties?: { className?: string[] } }

function collect(nodes: Node[], kind: string | undefined, lines: Piece[][]) {
  for (const node of nodes) {
    if (node.type === 'text') {
      node.value?.split('\n').forEach((text, at) => {
        if (at > 0) lines.push([])
        if (text !== '') lines.at(-1)?.push({ text, ...(kind && { kind }) })
      })
    } else collect(node.children ?? [], node.properties?.className?.[0]?.replace(/^hljs-/, '') ?? kind, lines)
  }
}
