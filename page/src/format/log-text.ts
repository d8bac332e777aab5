// Makes log text safe to display: terminal colors become styles; control characters, direction
// marks and invisible characters become visible signs. The result is only ever set as text.

export interface TextPart {
  text: string
  /** A class of the style sheet: a color, or a sign that stands for a character. */
  kind?: string
}

/**
 * What nobody would see, or what changes how the text behind it reads. The command line escapes the same
 * characters. Those that join letters of a script or an emoji (U+200C, U+200D) are kept.
 */
const unseen = [
  // Control characters, but for tabs and line feeds.
  '\\u{0}-\\u{8}\\u{b}-\\u{1f}\\u{7f}-\\u{9f}',
  // Soft hyphen, joiners and fillers that are invisible.
  '\\u{ad}\\u{34f}\\u{115f}\\u{1160}\\u{17b4}\\u{17b5}\\u{3164}\\u{ffa0}',
  // Spaces without width.
  '\\u{200b}\\u{feff}',
  // Direction marks, and separators of lines and paragraphs.
  '\\u{61c}\\u{200e}\\u{200f}\\u{2028}-\\u{202e}',
  // Invisible operators and isolates; a letter without ink.
  '\\u{2060}-\\u{206f}\\u{2800}',
  // Variation selectors: invisible, and able to carry text.
  '\\u{180b}-\\u{180f}\\u{fe00}-\\u{fe0f}\\u{e0100}-\\u{e01ef}',
  // Controls of shorthand and of musical notation.
  '\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}',
  // Annotations and objects, and tags: text that is meant only for machines.
  '\\u{fff0}-\\u{fffc}\\u{e0000}-\\u{e00ff}\\u{e01f0}-\\u{e0fff}',
].join('')

/** One such character. */
export const unseenCharacter = new RegExp(`[${unseen}]`, 'gu')
/** A command to a terminal, or one such character. */
const special = new RegExp(`\\u001b\\[([0-9;]*)([A-Za-z])|[${unseen}]`, 'gu')

const colors = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white']

const marks: Record<number, string> = {
  173: 'SHY',
  1564: 'ALM',
  8203: 'ZWSP',
  8206: 'LRM',
  8207: 'RLM',
  8232: 'LS',
  8233: 'PS',
  8234: 'LRE',
  8235: 'RLE',
  8236: 'PDF',
  8237: 'LRO',
  8238: 'RLO',
  8288: 'WJ',
  8294: 'LRI',
  8295: 'RLI',
  8296: 'FSI',
  8297: 'PDI',
  65279: 'BOM',
}

export function partsOf(text: string): TextPart[] {
  if (text.search(special) < 0) return [{ text }]
  const parts: TextPart[] = []
  let kind: string | undefined
  let at = 0
  for (const match of text.matchAll(special)) {
    push(parts, text.slice(at, match.index), kind)
    at = match.index + match[0].length
    if (match[2] === 'm') kind = colorOf(match[1] ?? '', kind)
    else if (match[2] === undefined) push(parts, signOf(match[0]), 'sign')
  }
  push(parts, text.slice(at), kind)
  return parts
}

function push(parts: TextPart[], text: string, kind: string | undefined): void {
  if (text) parts.push(kind ? { text, kind } : { text })
}

function colorOf(codes: string, before: string | undefined): string | undefined {
  let kind = before
  for (const code of codes.split(';').map(Number)) {
    if (code === 0 || code === 39) kind = undefined
    else if (code === 1) kind ??= 'ansi-bold'
    else if (code >= 30 && code <= 37) kind = `ansi-${colors[code - 30]}`
    else if (code >= 90 && code <= 97) kind = `ansi-${colors[code - 90]}`
  }
  return kind
}

/** The text alone, for where there is nothing but text: names, tooltips, labels, titles. */
export function plainText(text: string): string {
  if (text.search(special) < 0) return text
  const parts = partsOf(text)
  return parts.map((part) => (part.kind === 'sign' ? `[${part.text}]` : part.text)).join('')
}

function signOf(char: string): string {
  const code = char.codePointAt(0) ?? 0
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  if (code === 0x7f) return '\u2421'
  return marks[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, '0')}`
}

/** A message in one line of at most so many characters. */
export function oneLine(text: string, length: number): string {
  const cut = text.length > length ? `${text.slice(0, length)}…` : text
  return cut.replace(/\s*\n\s*/g, ' ⏎ ')
}

/** Cuts parts where words are to be marked. */
export function marked(parts: TextPart[], words: RegExp | undefined): TextPart[] {
  if (!words) return parts
  return parts.flatMap((part) => (part.kind === 'sign' ? [part] : markedPart(part, words)))
}

function markedPart(part: TextPart, words: RegExp): TextPart[] {
  const found: TextPart[] = []
  let at = 0
  for (const match of part.text.matchAll(words)) {
    if (!match[0]) continue
    push(found, part.text.slice(at, match.index), part.kind)
    push(found, match[0], 'mark')
    at = match.index + match[0].length
  }
  push(found, part.text.slice(at), part.kind)
  return found
}

/** One expression for all words; a phrase goes over whatever separates its words. */
export function wordsExpression(words: string[]): RegExp | undefined {
  const sources = words
    .map((word) => word.match(/[\p{L}\p{N}]+/gu) ?? [])
    .filter((pieces) => pieces.length > 0)
    .map((pieces) => pieces.join('[^\\p{L}\\p{N}]+'))
  if (sources.length === 0) return undefined
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${sources.join('|')})(?![\\p{L}\\p{N}])`, 'giu')
}
