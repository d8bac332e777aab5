// The list of keyboard shortcuts that are bound at the moment.

import { Dialog } from './ui/dialog'
import { type Binding, bindings } from './ui/keys'

const groups: Array<Binding['group']> = [
  'Everywhere',
  'Query and time',
  'Records',
  'Live tail',
  'Pipeline',
]

const inGrid: Array<[string, string]> = [
  ['↑ ↓', 'move through the list'],
  ['← →', 'choose a value of the row for f and F'],
  ['Enter', 'open or close the record'],
  ['Home End', 'first and last row'],
  ['Shift+F10', 'show the menu of the record'],
]

const inQuery: Array<[string, string]> = [
  ['Enter', 'run the query'],
  ['Tab', 'accept the completion'],
  ['Ctrl+Space', 'show completions'],
  ['↓', 'recent queries, while it is empty'],
  ['Escape', 'leave the query'],
]

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <div class="key-list">
        {groups.map((group) => {
          const found = bindings.value
            .filter((one) => one.group === group)
            .map((one) => [one.keys, one.does] as const)
          return found.length > 0 && <KeyGroup key={group} title={group} keys={found} />
        })}
        <KeyGroup title="In the list" keys={inGrid} />
        <KeyGroup title="In the query" keys={inQuery} />
      </div>
    </Dialog>
  )
}

function KeyGroup({ title, keys }: { title: string; keys: Array<readonly [string, string]> }) {
  return (
    <section>
      <h3>{title}</h3>
      <dl>
        {keys.map(([name, does]) => (
          <>
            <dt>
              {name.split(' ').map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </>
        ))}
      </dl>
    </section>
  )
}
