// Text that is selected over several rows is copied as one line for each of them, in place of one for
// each cell. The rows between are copied as well, whether they are in the document or not.

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
