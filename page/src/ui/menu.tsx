// The menu of the page. There is at most one at a time; callers pass its items and the element it
// belongs to.
import { signal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { plainText } from '../format/log-text'
import { Icon, type IconName } from './icon'
import { LogText } from './log-text'
import { placeBeside } from './place'

export interface MenuItem {
  label: string
  icon?: IconName
  hint?: string
  run?: () => void
  href?: string
  download?: boolean
}

export interface MenuGroup {
  title?: string
  items: MenuItem[]
}

interface OpenMenu {
  anchor: HTMLElement
  label: string
  groups: MenuGroup[]
}

const shown = signal<OpenMenu | undefined>(undefined)

/** The anchor of the menu that a click has just closed: the same click must not open it again. */
let closedBeside: HTMLElement | undefined

export function openMenu(anchor: HTMLElement, label: string, groups: MenuGroup[]): void {
  if (anchor === closedBeside) return
  shown.value = { anchor, label, groups: groups.filter((group) => group.items.length > 0) }
}

export function MenuHost() {
  const menu = shown.value
  return menu ? <Menu key={menu} menu={menu} /> : null
}

function Menu({ menu }: { menu: OpenMenu }) {
  const element = useRef<HTMLDivElement>(null)

  useLayoutEffect(() => {
    const box = element.current
    if (!box) return
    box.showPopover()
    placeBeside(box, menu.anchor.getBoundingClientRect(), 'start')
    itemsOf(box)[0]?.focus()
  }, [menu])

  function close() {
    if (shown.peek() !== menu) return
    shown.value = undefined
    // Cells cannot have the focus; their list has it.
    menu.anchor.closest<HTMLElement>('a, button, [tabindex]')?.focus({ preventScroll: true })
  }

  return (
    <div
      ref={element}
      class="menu"
      role="menu"
      tabIndex={-1}
      aria-label={plainText(menu.label)}
      popover="auto"
      onBeforeToggle={(event) => {
        if (event.newState === 'closed') noteClosed(menu.anchor)
      }}
      onToggle={(event) => {
        if (event.newState === 'closed') close()
      }}
      onKeyDown={(event) => moveByKey(event, element.current, close)}
    >
      {menu.groups.map((group, index) => (
        <MenuSection key={group.title ?? index} group={group} first={index === 0} close={close} />
      ))}
    </div>
  )
}

function noteClosed(anchor: HTMLElement): void {
  closedBeside = anchor
  window.setTimeout(() => {
    closedBeside = undefined
  })
}

interface SectionProps {
  group: MenuGroup
  first: boolean
  close: () => void
}

function MenuSection({ group, first, close }: SectionProps) {
  return (
    <>
      {!first && <div class="menu-line" role="separator" />}
      {group.title && (
        <div class="menu-title">
          <LogText text={group.title} />
        </div>
      )}
      {group.items.map((item) => (
        <Item key={item.label} item={item} close={close} />
      ))}
    </>
  )
}

function Item({ item, close }: { item: MenuItem; close: () => void }) {
  const content = (
    <>
      {item.icon && <Icon name={item.icon} />}
      <span>
        <LogText text={item.label} />
      </span>
      {item.hint && <small>{item.hint}</small>}
    </>
  )
  if (item.href) {
    return (
      <a
        class="menu-item"
        role="menuitem"
        href={item.href}
        download={item.download}
        onClick={close}
      >
        {content}
      </a>
    )
  }
  return (
    <button
      type="button"
      class="menu-item"
      role="menuitem"
      onClick={() => {
        close()
        item.run?.()
      }}
    >
      {content}
    </button>
  )
}

function itemsOf(box: HTMLElement): HTMLElement[] {
  return [...box.querySelectorAll<HTMLElement>('[role=menuitem]')]
}

function moveByKey(event: KeyboardEvent, box: HTMLElement | null, close: () => void): void {
  if (!box) return
  event.stopPropagation()
  const items = itemsOf(box)
  const at = items.indexOf(document.activeElement as HTMLElement)
  const target: Record<string, number> = {
    ArrowDown: (at + 1) % items.length,
    ArrowUp: (at - 1 + items.length) % items.length,
    Home: 0,
    End: items.length - 1,
  }
  const next = target[event.key]
  if (next !== undefined) {
    event.preventDefault()
    items[next]?.focus()
  } else if (event.key === 'Escape' || event.key === 'Tab') {
    event.preventDefault()
    close()
  }
}
