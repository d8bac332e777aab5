// The table of drains, failing ones first, with the actions for each.
import { useSignal } from '@preact/signals'
import { asProblem, change } from '../api/client'
import type { DrainChange, DrainEntry } from '../api/schema'
import { exact, rate, short } from '../format/numbers'
import { Discards } from '../pipeline/discards'
import { mayChange } from '../state/session'
import { Button, IconButton } from '../ui/button'
import { Dialog } from '../ui/dialog'
import { LogText } from '../ui/log-text'
import { openMenu } from '../ui/menu'
import { notify } from '../ui/notify'
import { ScrollBox } from '../ui/scroll-box'
import { sentence } from '../ui/states'
import { inOrder, lagText, matches, stateOf } from './figures'

interface TableProps {
  drains: DrainEntry[]
  rates: Map<string, number>
  add: () => void
  changed: () => void
}

/** Rows that are shown; others are found with the filter. */
const shownMost = 200

export function DrainTable({ drains, rates, add, changed }: TableProps) {
  const filter = useSignal('')
  const removing = useSignal<DrainEntry | undefined>(undefined)
  const found = inOrder(drains.filter((drain) => matches(drain, filter.value)))
  const shown = found.slice(0, shownMost)
  return (
    <section class="panel" aria-label="Drains">
      <header>
        <h2>Drains</h2>
        <span class="quiet grow">
          {found.length > shown.length
            ? `${shown.length} of ${exact(found.length)}: use the filter`
            : 'routed = delivered + discarded + waiting, since each drain was added'}
        </span>
        <input
          class="field small"
          type="search"
          placeholder="Find a drain"
          aria-label="Find a drain"
          value={filter.value}
          onInput={(event) => {
            filter.value = event.currentTarget.value
          }}
        />
        {mayChange.value && (
          <Button small kind="primary" icon="plus" onClick={add}>
            Add a drain
          </Button>
        )}
      </header>
      {shown.length === 0 ? (
        <p class="panel-note quiet">
          {drains.length === 0 ? 'There are no drains.' : 'No drain matches.'}
        </p>
      ) : (
        <ScrollBox className="ledger" label="Table of drains">
          <table class="drains">
            <Heads />
            <tbody>
              {shown.map((drain) => (
                <Row
                  key={drain.id}
                  drain={drain}
                  rate={rates.get(drain.id)}
                  changed={changed}
                  remove={() => {
                    removing.value = drain
                  }}
                />
              ))}
            </tbody>
          </table>
        </ScrollBox>
      )}
      {removing.value && (
        <RemoveDrain
          drain={removing.value}
          changed={changed}
          onClose={() => {
            removing.value = undefined
          }}
        />
      )}
    </section>
  )
}

function Heads() {
  const names = ['state', 'records of', 'destination', 'sent', 'waiting', 'lost', 'book', '']
  return (
    <thead>
      <tr>
        {names.map((name) => (
          <th
            key={name}
            scope="col"
            class={/sent|waiting/.test(name) ? 'number' : name ? '' : 'drain-actions'}
          >
            {name || <span class="visually-hidden">actions</span>}
          </th>
        ))}
      </tr>
    </thead>
  )
}

interface RowProps {
  drain: DrainEntry
  rate: number | undefined
  changed: () => void
  remove: () => void
}

function Row({ drain, rate: sent, changed, remove }: RowProps) {
  const state = stateOf(drain, sent)
  const lag = lagText(drain)
  return (
    <tr>
      <td class="drain-state">
        <span class={`dot ${state.tone}`} /> {state.text}
        {drain.error && <small class="drain-error">{drain.error}</small>}
      </td>
      <th scope="row" class="drain-whose">
        <LogText text={drain.selects} />
        <small class="quiet">{originText(drain.origin)}</small>
      </th>
      <td class="drain-url mono">
        <LogText text={drain.url} />
      </td>
      <td class="number" title={`${exact(drain.book.delivered)} records`}>
        {short(drain.book.delivered)}
        <small class="quiet">{sent === undefined ? '…' : rate(sent)}</small>
      </td>
      <td class="number" title={`${exact(drain.book.waiting)} records`}>
        {short(drain.book.waiting)}
        {lag && (
          <small class="quiet" title="Age of the oldest waiting record">
            {lag}
          </small>
        )}
        {drain.book.moved > 0 && (
          <small class="quiet" title="Records that were moved to the stream on disk">
            {short(drain.book.moved)} moved
          </small>
        )}
      </td>
      <Discards counts={drain.book.discarded} of={drain.book.routed} />
      <td class={`balance ${drain.unaccounted === 0 ? 'good' : 'bad'}`}>
        {drain.unaccounted === 0 ? 'balances' : `${exact(drain.unaccounted)} unaccounted`}
      </td>
      <td class="drain-actions">
        <IconButton
          small
          icon="more"
          label={`Actions for ${drain.selects} to ${drain.url}`}
          onClick={(event) =>
            openMenu(event.currentTarget as HTMLElement, drain.url, [
              { items: actionsOf(drain, changed, remove) },
            ])
          }
        />
      </td>
    </tr>
  )
}

function originText(origin: string): string {
  const names: Record<string, string> = {
    config: 'from the configuration',
    added: 'added manually',
    binding_cache: 'from the binding cache',
    cloud_controller: 'from the Cloud Controller',
  }
  return names[origin] ?? origin
}

function actionsOf(drain: DrainEntry, changed: () => void, remove: () => void) {
  const paused = drain.state === 'paused'
  const path = pathOf(drain)
  return [
    { label: 'Test the connection', icon: 'link' as const, run: () => test(drain) },
    paused
      ? {
          label: 'Resume',
          icon: 'play' as const,
          run: () => act(`${path}/resume`, 'Resumed', changed),
        }
      : {
          label: 'Pause',
          icon: 'pause' as const,
          hint: 'records wait on disk',
          run: () => act(`${path}/pause`, 'Paused: records wait on disk', changed),
        },
    ...(drain.origin === 'added'
      ? [{ label: 'Remove…', icon: 'close' as const, run: remove }]
      : []),
  ]
}

function pathOf(drain: DrainEntry): string {
  return `/weir/v1/drains/${encodeURIComponent(drain.id)}`
}

async function test(drain: DrainEntry): Promise<void> {
  try {
    const { error } = await change<DrainChange>('POST', `${pathOf(drain)}/test`)
    notify(error ? `No connection: ${error}` : `${drain.url} accepts connections`)
  } catch (error) {
    notify(sentence(asProblem(error).document.title))
  }
}

async function act(path: string, done: string, changed: () => void): Promise<void> {
  try {
    await change<DrainChange>('POST', path)
    notify(done)
    changed()
  } catch (error) {
    notify(sentence(asProblem(error).document.title))
  }
}

interface RemoveProps {
  drain: DrainEntry
  changed: () => void
  onClose: () => void
}

function RemoveDrain({ drain, changed, onClose }: RemoveProps) {
  const failed = useSignal('')
  const remove = async () => {
    try {
      await change<DrainChange>('DELETE', pathOf(drain))
      notify('Removed')
      changed()
      onClose()
    } catch (error) {
      failed.value = sentence(asProblem(error).document.title)
    }
  }
  return (
    <Dialog title="Remove this drain?" onClose={onClose}>
      <p class="mono">{drain.url}</p>
      <p>
        {drain.book.waiting > 0
          ? `${exact(drain.book.waiting)} waiting records will be discarded and counted.`
          : 'No records are waiting.'}
      </p>
      {failed.value && (
        <p class="badge bad" role="alert">
          {failed.value}
        </p>
      )}
      <div class="row">
        <Button kind="primary" onClick={remove}>
          Remove
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
    </Dialog>
  )
}
