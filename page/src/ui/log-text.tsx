// Log text on the page: only text nodes, in spans with classes of our own.
import { marked, partsOf } from '../format/log-text'

interface LogTextProps {
  text: string
  words?: RegExp | undefined
}

export function LogText({ text, words }: LogTextProps) {
  const parts = marked(partsOf(text), words)
  const only = parts[0]
  if (parts.length === 1 && only && !only.kind) return <>{only.text}</>
  return (
    <>
      {parts.map((part, index) =>
        part.kind ? (
          <span key={index} class={part.kind}>
            {part.text}
          </span>
        ) : (
          part.text
        ),
      )}
    </>
  )
}
