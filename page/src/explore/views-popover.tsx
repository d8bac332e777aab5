// The popover with saved views and recent queries.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { go } from '../state/location'
import {
  forgetQueries,
  loadViews,
  queriesBefore,
  removeView,
  saveView,
  type View,
  views,
  viewsProblem,
} from '../state/views'
import { Button, IconButton } from '../ui/button'
import { LogText } from '../ui/log-text'
import { notify } from '../ui/notify'
import { Popover } from '../ui/popover'
import { sentence } from '../ui/states'
import { setQuery } from './question'

const parameters = [
  'q',
  'from',
  'to',
  'view',
  'cols',
  'sort',
  'group',
  'aggregation',
  'metric',
  'chart',
  'measure',
  'service',
  'workers',
  'by',
  'split',
  'bar',
]

export function ViewsPopover() {
  return (
    <Popover label="Saved views and history" icon="bookmark">
      {(close) => <Content close={close} />}
    </Popover>
  )
}

function Content({ close }: { close: () => void }) {
  useEffect(() => {
    loadViews()
  }, [])
  return (
    <div class="views">
      <SaveForm />
      {viewsProblem.value && (
        <p class="badge bad views-note" role="alert">
          {sentence(viewsProblem.value.document.title)}
        </p>
      )}
      <h3 class="facets-group">Saved views</h3>
      {views.value.length === 0 && (
        <p class="quiet views-note">None yet. Saved views are shared by all users of this page.</p>
      )}
      <ul class="plain-list">
        {views.value.map((view) => (
          <ViewRow key={view.name} view={view} close={close} />
        ))}
      </ul>
      <h3 class="facets-group row">
        <span class="grow">Recent queries</span>
        {queriesBefore.value.length > 0 && (
          <Button small kind="plain" onClick={() => forgetQueries()}>
            Clear
          </Button>
        )}
      </h3>
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
              <LogText text={query} />
            </button>
          </li>
        ))}
      </ul>
    </div>
  )
}

function ViewRow({ view, close }: { view: View; close: () => void }) {
  return (
    <li class="row">
      <button
        type="button"
        class="menu-item grow"
        onClick={() => {
          show(view)
          close()
        }}
      >
        <LogText text={view.name} />
      </button>
      <IconButton
        small
        icon="close"
        label={`Delete ${view.name}`}
        onClick={() => removeView(view.name)}
      />
    </li>
  )
}

function SaveForm() {
  const name = useSignal('')
  const save = async () => {
    const wanted = name.value.trim()
    if (!wanted || !(await saveView(wanted, window.location.search))) return
    notify(`Saved as ${wanted}`)
    name.value = ''
  }
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault()
        save()
      }}
    >
      <input
        class="field small grow"
        placeholder="Name of this view"
        aria-label="Name of this view"
        maxLength={80}
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
