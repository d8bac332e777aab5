// The message and the fields of a record, with actions for each value.
import { useSignal } from '@preact/signals'
import { jsonOf } from '../api/exact'
import type { LogEntry } from '../api/schema'
import { plainText } from '../format/log-text'
import { measured } from '../format/numbers'
import { Button, IconButton } from '../ui/button'
import { LogText } from '../ui/log-text'
import { copy } from '../ui/notify'
import { unitOf } from './facets'
import { type FieldValue, flatten, lagField, lineOf, pathIn, textOf, valueText } from './record'
import { exclude, include, openValueMenu } from './value-menu'

/** A megabyte of text is slow to lay out; the rest is shown on demand. */
const messageShown = 20_000

export function FieldsTab({ record }: { record: LogEntry }) {
  const { attributes } = record
  const own = flatten(attributes.attributes).filter((field) => !isRepeated(field, record))
  return (
    <>
      <Message text={attributes.message ?? ''} />
      <div class="drawer-actions">
        <Button small icon="copy" onClick={() => copy(lineOf(record), 'the record as a line')}>
          Copy as a line
        </Button>
        <Button small icon="copy" onClick={() => copy(jsonOf(record, 2), 'the record as JSON')}>
          Copy as JSON
        </Button>
      </div>
      <FieldTable title="Common" fields={commonOf(record)} />
      <FieldTable title="Tags" fields={tagsOf(record)} />
      <FieldTable title="Attributes" fields={own} />
    </>
  )
}

/** Whether an attribute has the same value as a common field. */
function isRepeated({ name, value }: FieldValue, record: LogEntry): boolean {
  const { service, host, status } = record.attributes
  const twins: Record<string, unknown> = {
    '@service': service,
    '@hostname': host,
    '@host': host,
    '@status': status,
  }
  return name === '@ddtags' || (name in twins && twins[name] === value)
}

function commonOf(record: LogEntry): FieldValue[] {
  const { service, host, status, attributes } = record.attributes
  // One of that name is among the attributes.
  const lag = pathIn(attributes, 'lag') === undefined ? record.weir?.lag_ns : undefined
  const fields = [
    { name: 'service', value: service },
    { name: 'host', value: host },
    { name: 'status', value: status },
    { name: 'source', value: record.weir?.source },
    { name: lagField, value: lag },
  ]
  return fields.filter(({ value }) => value || value === 0)
}

function tagsOf(record: LogEntry): FieldValue[] {
  return record.attributes.tags
    .filter((tag) => !tag.startsWith('source:'))
    .map((tag) => {
      const colon = tag.indexOf(':')
      return colon > 0
        ? { name: tag.slice(0, colon), value: tag.slice(colon + 1) }
        : { name: 'tags', value: tag }
    })
}

function Message({ text }: { text: string }) {
  const all = useSignal(false)
  const shown = all.value ? text : text.slice(0, messageShown)
  if (text === '') return <p class="quiet drawer-message">This record has no message.</p>
  return (
    <div class="drawer-message-box">
      <pre class="drawer-message">
        <LogText text={shown} />
      </pre>
      <IconButton
        small
        icon="copy"
        label="Copy the message"
        onClick={() => copy(text, 'the message')}
      />
      {shown.length < text.length && (
        <Button
          small
          onClick={() => {
            all.value = true
          }}
        >
          Show all {text.length.toLocaleString('en')} characters
        </Button>
      )}
    </div>
  )
}

function FieldTable({ title, fields }: { title: string; fields: FieldValue[] }) {
  if (fields.length === 0) return null
  return (
    <section class="field-table" aria-label={title}>
      <h2 class="facets-group">{title}</h2>
      {fields.map((field) => (
        <FieldRow key={field.name + textOf(field.value)} field={field} />
      ))}
    </section>
  )
}

/** A text that needs the whole width. */
function isTall(text: string): boolean {
  return text.length > 160 || text.includes('\n')
}

function FieldRow({ field }: { field: FieldValue }) {
  const { name, value } = field
  const text = valueText(value)
  const unit = unitOf(name)
  const filters = value !== null && typeof value !== 'object' && text.length < 1_000
  return (
    <div class={`field-row${isTall(text) ? ' tall' : ''}`}>
      <span class="field-name" title={plainText(name)}>
        <LogText text={name} />
      </span>
      <span class="field-value">
        {typeof value === 'number' && unit ? (
          <>
            {measured(value, unit)} <span class="quiet">{`${text} ${unit}`}</span>
          </>
        ) : (
          <LogText text={text.slice(0, messageShown)} />
        )}
      </span>
      <span class="field-actions">
        {filters && (
          <>
            <IconButton
              small
              icon="include"
              label={`Only ${name} ${text}`}
              onClick={() => include(name, value)}
            />
            <IconButton
              small
              icon="exclude"
              label={`Hide ${name} ${text}`}
              onClick={() => exclude(name, value)}
            />
          </>
        )}
        <IconButton
          small
          icon="more"
          label={`Actions for ${name}`}
          onClick={(event) => openValueMenu(event.currentTarget as HTMLElement, name, value)}
        />
      </span>
    </div>
  )
}
