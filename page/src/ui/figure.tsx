// A figure: its name, its value, and a note.

interface FigureProps {
  name: string
  value: string
  note: string
  tone?: 'good' | 'bad' | ''
}

export function Figure({ name, value, note, tone = '' }: FigureProps) {
  return (
    <div class={`figure ${tone}`} role="group" aria-label={name}>
      <span class="figure-name">{name}</span>
      <strong>{value}</strong>
      <small>{note}</small>
    </div>
  )
}
