// Buttons. A button with only an icon has a name for everybody: a tooltip and a label.
import type { ComponentChildren } from 'preact'
import { plainText } from '../format/log-text'
import { Icon, type IconName } from './icon'

interface IconButtonProps {
  icon: IconName
  label: string
  onClick: (event: MouseEvent) => void
  small?: boolean
  plain?: boolean
  pressed?: boolean | undefined
  expanded?: boolean | undefined
  disabled?: boolean
  keys?: string
}

export function IconButton(props: IconButtonProps) {
  const { icon, onClick, small, plain = true, pressed, expanded, disabled = false } = props
  const label = plainText(props.label)
  const title = props.keys ? `${label} (${props.keys})` : label
  return (
    <button
      type="button"
      class={`button icon-only${small ? ' small' : ''}${plain ? ' plain' : ''}`}
      aria-label={label}
      title={title}
      aria-pressed={pressed}
      aria-expanded={expanded}
      disabled={disabled}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  )
}

interface ButtonProps {
  children: ComponentChildren
  onClick: (event: MouseEvent) => void
  icon?: IconName
  kind?: 'primary' | 'plain' | ''
  small?: boolean
  disabled?: boolean
  title?: string | undefined
  expanded?: boolean | undefined
  pressed?: boolean | undefined
}

export function Button(props: ButtonProps) {
  const { children, onClick, icon, kind = '', small, disabled = false } = props
  return (
    <button
      type="button"
      class={`button ${kind}${small ? ' small' : ''}`}
      onClick={onClick}
      disabled={disabled}
      title={props.title}
      aria-expanded={props.expanded}
      aria-pressed={props.pressed}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  )
}

/** For a page that only loading it again can help. */
export function ReloadButton() {
  return (
    <button type="button" class="button" onClick={() => window.location.reload()}>
      Reload the page
    </button>
  )
}
