// Outliers: groups by their 99th percentile, compared with that of all records.
import { facets } from '../explore/facets'
import { include } from '../explore/value-menu'
import { plainText } from '../format/log-text'
import { exact, measured, short } from '../format/numbers'
import { go } from '../state/location'
import { isOutdated } from '../state/resource'
import { LogText } from '../ui/log-text'
import { ScrollBox } from '../ui/scroll-box'
import { Select } from '../ui/select'
import { Skeleton } from '../ui/states'
import { by, metric } from './choice'
import { type Outlier, outliers, summary } from './load'

/** Groups slower than all records by this factor are marked. */
const notable = 1.5

export function Outliers() {
  const found = outliers.data.value
  const names = (facets.data.value?.facets ?? []).map((facet) => facet.name)
  return (
    <section class="panel" aria-label="Outliers">
      <header>
        <h2 class="grow">Slowest groups</h2>
        <label class="labelled">
          by
          <Select
            value={by.value}
            options={names}
            onChange={(next) => go({ by: next }, { replace: true })}
          />
        </label>
      </header>
      <ScrollBox
        label="Table of groups"
        className={`ledger${isOutdated(outliers) ? ' stale' : ''}`}
      >
        {found ? (
          <Table rows={found.rows} unit={found.unit} />
        ) : (
          <Skeleton lines={6} label="Comparing" />
        )}
      </ScrollBox>
    </section>
  )
}

function Table({ rows, unit }: { rows: Outlier[]; unit: string | undefined }) {
  if (rows.length === 0) return <p class="panel-note quiet">No group has this field.</p>
  const most = Math.max(...rows.map((row) => row.p99), 1e-12)
  const text = (value: number) => measured(value, unit)
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">
            <LogText text={by.value} />
          </th>
          <th scope="col" class="number">
            records
          </th>
          <th scope="col" class="number">
            median
          </th>
          <th scope="col" class="number">
            p90
          </th>
          <th scope="col" class="number">
            p99
          </th>
          <th scope="col">
            <span class="visually-hidden">p99 as a bar</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name}>
            <th scope="row">
              <button
                type="button"
                class="link outlier-name"
                title={`Only ${plainText(row.name)}`}
                onClick={() => include(by.peek(), row.name)}
              >
                <LogText text={row.name || '(empty)'} />
              </button>
            </th>
            <td class="number" title={exact(row.count)}>
              {short(row.count)}
            </td>
            <td class="number">{text(row.p50)}</td>
            <td class="number">{text(row.p90)}</td>
            <td class="number">{text(row.p99)}</td>
            <td class="outlier-bar">
              <span class="top-bar" style={{ width: `${(row.p99 / most) * 100}%` }} />
              <Times row={row} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Times({ row }: { row: Outlier }) {
  const all = summary.data.value?.p99
  if (!all || row.p99 / all < notable) return null
  return (
    <span
      class="badge caution"
      title={`its 99th percentile of ${plainText(metric.value)}, compared with that of all`}
    >
      ×{(row.p99 / all).toFixed(1)}
    </span>
  )
}
