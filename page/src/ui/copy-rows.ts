// Copies text that is selected across rows as one line for each row, rather than one for each cell.
// Rows in between are included even if they are not in the document.

export function copyRows(
  event: ClipboardEvent,
  lineAt: (index: number) => string | undefined,
): void {
  const selection = window.getSelection()
  const ends = [rowOf(selection?.anchorNode), rowOf(selection?.focusNode)]
  const [first, last] = [Math.min(...ends), Math.max(...ends)]
  if (!(last > first)) return
  const lines: string[] = []
  for (let index = first; index <= last; index += 1) lines.push(lineAt(index) ?? '')
  event.preventDefault()
  event.clipboardData?.setData('text/plain', lines.filter(Boolean).join('\n'))
}

function rowOf(node: Node | null | undefined): number {
  const element = node instanceof Element ? node : node?.parentElement
  return Number(element?.closest<HTMLElement>('[data-index]')?.dataset.index ?? Number.NaN)
}
