// Saved views and the queries of before.
import { useSignal } from '@preact/signals'
import { go } from '../state/location'
import { queriesBefore, removeView, saveView, type View, views } from '../state/views'
import { IconButton } from '../ui/button'
import { notify } from '../ui/notify'
import { Popover } from '../ui/popover'
import { setQuery } from './question'

const parameters = [
  'q',
  'from',
  'to',
  'view',
  'cols',
  'sort',
  'group',
  'figure',
  'metric',
  'chart',
  'measure',
]

export function ViewsPopover() {
  return (
    <Popover label="Saved views and history" icon="bookmark">
      {(close) => (
        <div class="views">
          <SaveForm />
          <h3 class="facets-group">Saved views</h3>
          {views.value.length === 0 && (
            <p class="quiet views-note">None yet. They stay in this browser.</p>
          )}
          <ul class="plain-list">
            {views.value.map((view) => (
              <li key={view.name} class="row">
                <button
                  type="button"
                  class="menu-item grow"
                  onClick={() => {
                    show(view)
                    close()
                  }}
                >
                  {view.name}
                </button>
                <IconButton
                  small
                  icon="close"
                  label={`Delete ${view.name}`}
                  onClick={() => removeView(view.name)}
                />
              </li>
            ))}
          </ul>
          <h3 class="facets-group">Queries of before</h3>
          {queriesBefore.value.length === 0 && <p class="quiet views-note">None yet.</p>}
          <ul class="plain-list history">
            {queriesBefore.value.map((query) => (
              <li key={query}>
                <button
                  type="button"
                  class="menu-item mono"
                  onClick={() => {
                    setQuery(query)
                    close()
                  }}
                >
                  {query}
                </button>
              </li>
            ))}
          </ul>
        </div>
      )}
    </Popover>
  )
}

function SaveForm() {
  const name = useSignal('')
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault()
        if (!name.value.trim()) return
        saveView(name.value.trim(), window.location.search)
        notify(`Saved as ${name.value.trim()}`)
        name.value = ''
      }}
    >
      <input
        class="field small grow"
        placeholder="Name of this view"
        aria-label="Name of this view"
        value={name.value}
        onInput={(event) => {
          name.value = event.currentTarget.value
        }}
      />
      <button type="submit" class="button small primary">
        Save
      </button>
    </form>
  )
}

function show(view: View): void {
  const wanted = new URLSearchParams(view.search)
  go(Object.fromEntries(parameters.map((name) => [name, wanted.get(name)])))
}
