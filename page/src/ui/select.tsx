// A drop-down list; the current value is shown even if it is not among the options.
import { plainText } from '../format/log-text'

interface SelectProps {
  value: string
  options: string[]
  onChange: (value: string) => void
  label?: (value: string) => string
  name?: string
}

export function Select({ value, options, onChange, label = (one) => one, name }: SelectProps) {
  const shown = options.includes(value) ? options : [value, ...options]
  return (
    <select
      class="field small"
      aria-label={name}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    >
      {shown.map((one) => (
        <option key={one} value={one}>
          {plainText(label(one))}
        </option>
      ))}
    </select>
  )
}
