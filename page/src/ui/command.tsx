// A command for a terminal, with a button that copies it.
import { IconButton } from './button'
import { copy } from './notify'

export function Command({ text, does }: { text: string; does: string }) {
  return (
    <div class="command">
      <code class="mono grow">{text}</code>
      <IconButton
        small
        icon="copy"
        label={`Copy ${text}`}
        onClick={() => copy(text, 'the command')}
      />
      <p class="quiet">{does}</p>
    </div>
  )
}
