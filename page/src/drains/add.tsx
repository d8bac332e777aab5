// The dialog for adding a drain: which records to send, and where.
import { useSignal } from '@preact/signals'
import { asProblem, change } from '../api/client'
import type { DrainChange, NewDrain } from '../api/schema'
import { Button } from '../ui/button'
import { Dialog } from '../ui/dialog'
import { notify } from '../ui/notify'
import { sentence } from '../ui/states'

const selectors = {
  app: 'An application',
  space: 'A space',
  organization: 'An organization',
  all: 'All applications',
} as const

type Selector = keyof typeof selectors

interface AddProps {
  onAdded: () => void
  onClose: () => void
}

export function AddDrain({ onAdded, onClose }: AddProps) {
  const selector = useSignal<Selector>('app')
  const id = useSignal('')
  const url = useSignal('')
  const hostname = useSignal('')
  const failed = useSignal('')
  const add = async () => {
    const drain: NewDrain = { url: url.value.trim(), hostname: hostname.value.trim() }
    if (selector.value !== 'all') drain[selector.value] = id.value.trim()
    try {
      await change<DrainChange>('POST', '/weir/v1/drains', drain)
      notify('Added')
      onAdded()
      onClose()
    } catch (error) {
      failed.value = sentence(asProblem(error).document.title)
    }
  }
  return (
    <Dialog title="Add a drain" onClose={onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault()
          add()
        }}
      >
        <SelectorField value={selector} />
        {selector.value !== 'all' && (
          <Field label="ID" value={id} placeholder="0f2ac2a1-2be4-4b3e-a4d8-4a4e1c0f8b11" />
        )}
        <Field
          label="Destination"
          value={url}
          placeholder="syslog-tls://logs.example.com:6514?drain-data=logs"
        />
        <Field
          label="Host name in messages without an application in their tags"
          value={hostname}
          placeholder="org.space.app"
          optional
        />
        <p class="quiet">
          syslog, syslog-tls, https or https-batch. For a client certificate, use{' '}
          <code>weir drains add --cert-file FILE --key-file FILE</code>.
        </p>
        {failed.value && (
          <p class="form-problem" role="alert">
            {failed.value}
          </p>
        )}
        <div class="row">
          <button type="submit" class="button primary">
            Add
          </button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  )
}

function SelectorField({ value }: { value: { value: Selector } }) {
  return (
    <label>
      Records of
      <select
        class="field"
        value={value.value}
        onChange={(event) => {
          value.value = event.currentTarget.value as Selector
        }}
      >
        {Object.entries(selectors).map(([name, text]) => (
          <option key={name} value={name}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}

interface FieldProps {
  label: string
  value: { value: string }
  placeholder: string
  optional?: boolean
}

function Field({ label, value, placeholder, optional = false }: FieldProps) {
  return (
    <label>
      {label}
      {optional && <span class="quiet"> (optional)</span>}
      <input
        class="field mono"
        required={!optional}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
        value={value.value}
        onInput={(event) => {
          value.value = event.currentTarget.value
        }}
      />
    </label>
  )
}
