// The header of the list of records: the order, and columns that can be moved, resized and removed
// by pointer and keyboard.
import { plainText } from '../format/log-text'
import { go } from '../state/location'
import { IconButton } from '../ui/button'
import { Icon } from '../ui/icon'
import { LogText } from '../ui/log-text'
import { openMenu } from '../ui/menu'
import { columns, moveColumn, setWidth, toggleColumn, widthOf } from './columns'
import { sort } from './records'

export function HeaderRow() {
  const newest = sort.value === '-timestamp'
  return (
    <div class="record record-head" role="row" aria-rowindex={1}>
      <span class="cell" role="columnheader">
        <span class="visually-hidden">severity</span>
      </span>
      <span class="cell" role="columnheader" aria-sort={newest ? 'descending' : 'ascending'}>
        <button
          type="button"
          class="head-name"
          title={
            newest ? 'Newest first; click for oldest first' : 'Oldest first; click for newest first'
          }
          onClick={() => go({ sort: newest ? 'timestamp' : null })}
        >
          time
          <Icon name={newest ? 'chevronDown' : 'chevronUp'} />
        </button>
        <Resizer name="timestamp" />
      </span>
      {columns.value.map((name) => (
        <ColumnHead key={name} name={name} />
      ))}
    </div>
  )
}

function ColumnHead({ name }: { name: string }) {
  return (
    <span
      class="cell"
      role="columnheader"
      draggable
      onDragStart={(event) => event.dataTransfer?.setData('text/weir-column', name)}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        const dragged = event.dataTransfer?.getData('text/weir-column') ?? ''
        const now = columns.peek()
        moveColumn(dragged, now.indexOf(name) - now.indexOf(dragged))
      }}
    >
      <span class="head-name grow">
        <LogText text={name} />
      </span>
      <IconButton
        small
        icon="more"
        label={`Column ${name}`}
        onClick={(event) => openColumnMenu(event.currentTarget as HTMLElement, name)}
      />
      <Resizer name={name} />
    </span>
  )
}

function openColumnMenu(anchor: HTMLElement, name: string): void {
  openMenu(anchor, `Column ${name}`, [
    {
      title: name,
      items: [
        { label: 'Move left', icon: 'chevronLeft', run: () => moveColumn(name, -1) },
        { label: 'Move right', icon: 'chevronRight', run: () => moveColumn(name, 1) },
        { label: 'Remove the column', icon: 'close', run: () => toggleColumn(name) },
        ...(name === 'message'
          ? []
          : [
              {
                label: 'Group by this field',
                icon: 'chart' as const,
                run: () => go({ view: 'groups', group: name }),
              },
            ]),
      ],
    },
  ])
}

const stepByKey = 16

function Resizer({ name }: { name: string }) {
  function drag(event: PointerEvent) {
    event.preventDefault()
    const handle = event.currentTarget as HTMLElement
    const begin = { at: event.clientX, width: widthOf(name) }
    handle.setPointerCapture(event.pointerId)
    handle.onpointermove = (moved) => setWidth(name, begin.width + moved.clientX - begin.at)
    handle.onpointerup = () => {
      handle.onpointermove = null
    }
  }
  return (
    <span
      class="resizer"
      role="separator"
      aria-orientation="vertical"
      aria-label={`Width of ${plainText(name)}`}
      aria-valuenow={widthOf(name)}
      tabIndex={0}
      onPointerDown={drag}
      onKeyDown={(event) => {
        const by = { ArrowLeft: -stepByKey, ArrowRight: stepByKey }[event.key]
        if (by === undefined) return
        event.preventDefault()
        event.stopPropagation()
        setWidth(name, widthOf(name) + by)
      }}
    />
  )
}
