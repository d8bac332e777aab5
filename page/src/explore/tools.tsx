// Display options of the list of records: columns, wrapping, density, histogram.
import { density, histogramShown, wrap } from '../state/settings'
import { IconButton } from '../ui/button'
import { LogText } from '../ui/log-text'
import { Popover } from '../ui/popover'
import { columns, defaultColumns, setColumns, toggleColumn } from './columns'
import { facets } from './facets'

export function RecordTools() {
  return (
    <div class="tools">
      <IconButton
        small
        icon="chart"
        label="Show the histogram"
        pressed={histogramShown.value}
        onClick={() => {
          histogramShown.value = !histogramShown.value
        }}
      />
      <IconButton
        small
        icon="wrap"
        label="Wrap long lines"
        keys="w"
        pressed={wrap.value}
        onClick={() => {
          wrap.value = !wrap.value
        }}
      />
      <IconButton
        small
        icon="density"
        label={density.value === 'compact' ? 'Comfortable rows' : 'Compact rows'}
        onClick={() => {
          density.value = density.value === 'compact' ? 'comfortable' : 'compact'
        }}
      />
      <Popover label="Columns" icon="columns" className="small">
        {() => <ColumnChoice />}
      </Popover>
    </div>
  )
}

function ColumnChoice() {
  const shown = columns.value
  const known = (facets.data.value?.facets ?? []).map((facet) => facet.name)
  const names = [...new Set([...shown, 'message', ...known])]
  return (
    <div class="column-choice">
      {names.map((name) => (
        <label key={name} class="menu-item">
          <input
            type="checkbox"
            checked={shown.includes(name)}
            onChange={() => toggleColumn(name)}
          />
          <span class="mono">
            <LogText text={name} />
          </span>
        </label>
      ))}
      <button type="button" class="button small" onClick={() => setColumns(defaultColumns)}>
        Default columns
      </button>
    </div>
  )
}
