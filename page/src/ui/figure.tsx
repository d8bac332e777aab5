// One number in a row of them: what it is, how much, and what that means.

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
