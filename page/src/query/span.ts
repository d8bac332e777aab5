// Positions in a query: the API counts bytes of UTF-8, the editor UTF-16 units.

const encoder = new TextEncoder()

export function offsetOfByte(text: string, byte: number): number {
  let bytes = 0
  let offset = 0
  for (const char of text) {
    if (bytes >= byte) return offset
    bytes += encoder.encode(char).length
    offset += char.length
  }
  return offset
}
