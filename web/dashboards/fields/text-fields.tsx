import { useState } from 'react'
import { TextArea } from '../../kit/field.tsx'
import type { FieldsProps } from './choice.tsx'

export function TextFields({ given, children }: FieldsProps<'text'>) {
  const [text, setText] = useState(given?.text ?? '')
  return children(
    text.trim() ? { kind: 'text', text } : undefined,
    <TextArea label="Text in Markdown" rows={8} value={text} onChange={(event) => setText(event.target.value)} />,
  )
}
