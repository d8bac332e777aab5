// The tokens of an expression, for highlighting and completion. Only weir determines what an
// expression means; nothing is rejected here.

export type TokenKind =
  | 'space'
  | 'operator'
  | 'bracket'
  | 'key'
  | 'comparison'
  | 'text'
  | 'quoted'
  | 'number'
  | 'regex'
  | 'wildcard'

export interface Token {
  kind: TokenKind
  from: number
  to: number
}

const words = /^(AND|OR|NOT|TO|&&|\|\|)$/
const number = /^[+-]?\d+(\.\d+)?(e[+-]?\d+)?(ns|us|µs|ms|s|m|min|h|d|[kmgt]?i?b)?$/i

/** Cuts an expression into tokens; together they cover all of it. */
export function scan(text: string): Token[] {
  const tokens: Token[] = []
  let at = 0
  let afterKey = false
  while (at < text.length) {
    const token = next(text, at, afterKey)
    tokens.push(token)
    afterKey = token.kind === 'key' || (afterKey && token.kind === 'comparison')
    at = token.to
  }
  return tokens
}

function next(text: string, from: number, afterKey: boolean): Token {
  const rest = text.slice(from)
  const space = /^\s+/.exec(rest)
  if (space) return { kind: 'space', from, to: from + space[0].length }
  if (/^["“”]/.test(rest)) return { kind: 'quoted', from, to: endOfQuoted(text, from) }
  const comparison = afterKey ? /^[<>]=?/.exec(rest) : null
  if (comparison) return { kind: 'comparison', from, to: from + comparison[0].length }
  if (/^[()]/.test(rest) || /^[[\]{}]/.test(rest)) return { kind: 'bracket', from, to: from + 1 }
  if (rest.startsWith('-') && /^-[^\s\d]/.test(rest) && !afterKey) {
    return { kind: 'operator', from, to: from + 1 }
  }
  const regex = endOfRegex(text, from)
  if (regex) return { kind: 'regex', from, to: regex }
  return word(text, from, afterKey)
}

function word(text: string, from: number, afterKey: boolean): Token {
  let at = from
  while (at < text.length) {
    const char = text.charAt(at)
    if (char === '\\') at += 1
    else if (/[\s()"“”\]}]/.test(char)) break
    else if (char === ':' && !afterKey) return { kind: 'key', from, to: at + 1 }
    at += 1
  }
  const to = Math.max(Math.min(at, text.length), from + 1)
  return { kind: kindOfWord(text.slice(from, to)), from, to }
}

function kindOfWord(text: string): TokenKind {
  if (words.test(text)) return 'operator'
  if (number.test(text)) return 'number'
  return /(^|[^\\])[*?]/.test(text) ? 'wildcard' : 'text'
}

function endOfQuoted(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    const char = text.charAt(at)
    if (char === '\\' && /["\\]/.test(text.charAt(at + 1))) at += 1
    else if (/["“”]/.test(char)) return at + 1
  }
  return text.length
}

/** Where a regular expression ends, if one begins here: its second slash ends the value. */
function endOfRegex(text: string, from: number): number | undefined {
  if (text.charAt(from) !== '/') return undefined
  for (let at = from + 1; at < text.length; at += 1) {
    const char = text.charAt(at)
    if (char === '\\') at += 1
    else if (char === '/') {
      const to = text.charAt(at + 1) === 'i' ? at + 2 : at + 1
      return to >= text.length || /[\s)]/.test(text.charAt(to)) ? to : undefined
    }
  }
  return undefined
}
