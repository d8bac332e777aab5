// Tabs; the arrow keys move between them.
interface Tab {
  id: string
  label: string
  count?: string | undefined
}

interface TabsProps {
  label: string
  tabs: Tab[]
  current: string
  onChange: (id: string) => void
}

export function Tabs({ label, tabs, current, onChange }: TabsProps) {
  function move(event: KeyboardEvent) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
    if (by === undefined) return
    event.preventDefault()
    const at = tabs.findIndex((tab) => tab.id === current)
    const next = tabs[(at + by + tabs.length) % tabs.length]
    if (!next) return
    onChange(next.id)
    const list = event.currentTarget as HTMLElement
    list.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus()
  }
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map((tab) => (
        <button
          key={tab.id}
          type="button"
          class="tab"
          role="tab"
          data-tab={tab.id}
          data-label={tab.count === undefined ? tab.label : undefined}
          aria-selected={tab.id === current}
          tabIndex={tab.id === current ? 0 : -1}
          onClick={() => onChange(tab.id)}
        >
          {tab.label}
          {tab.count !== undefined && <small class="tab-count">{tab.count}</small>}
        </button>
      ))}
    </div>
  )
}
