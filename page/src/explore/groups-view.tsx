// Groups as a list with bars, or as a chart over time.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { exact, measured, short } from '../format/numbers'
import { withValue } from '../query/terms'
import { go } from '../state/location'
import { isOutdated, problemInstead } from '../state/resource'
import { Button } from '../ui/button'
import { Chart, Legend, TableButton } from '../ui/chart'
import { LogText } from '../ui/log-text'
import { Select } from '../ui/select'
import { Empty, Partial, ProblemView, Skeleton } from '../ui/states'
import { facets, numberFields } from './facets'
import { aggregations, choice, type Groups, groups, isCount, loadGroups } from './groups'
import { askAgain, query, question, setSpan } from './question'
import { setQueryNow } from './value-menu'

export function GroupsView() {
  const asked = question.value
  const chosen = choice.value
  useEffect(() => {
    loadGroups(asked, chosen)
  }, [asked, chosen])
  return (
    <div class="groups scroll">
      <Controls />
      <Answer />
    </div>
  )
}

function Answer() {
  const problem = problemInstead(groups)
  if (problem) return <ProblemView problem={problem} again={askAgain} suggest={setQueryNow} />
  const found = groups.data.value
  if (!found) return <Skeleton lines={10} label="Counting groups" />
  return (
    <div class={isOutdated(groups) ? 'stale' : ''}>
      <Partial meta={found.meta} />
      {found.choice.chart === 'lines' ? <Lines found={found} /> : <TopList found={found} />}
      {found.without > 0 && (
        <p class="quiet drawer-note">
          {exact(found.without)} records without these fields are in no group.
        </p>
      )}
    </div>
  )
}

function Controls() {
  const { fields, aggregation, metric, chart } = choice.value
  const [first = '', second = ''] = fields
  const names = (facets.data.value?.facets ?? []).map((facet) => facet.name)
  const numbers = numberFields.value.map((facet) => facet.name)
  const setFields = (...next: string[]) =>
    go({ group: next.filter(Boolean).join(',') }, { replace: true })
  return (
    <div class="controls">
      <label class="labelled">
        Show
        <Select
          value={aggregation}
          options={Object.keys(aggregations)}
          label={(one) => aggregations[one] ?? one}
          onChange={(next) =>
            go({ aggregation: next === 'count' ? null : next }, { replace: true })
          }
        />
      </label>
      {aggregation !== 'count' && (
        <Select
          name="Field of the aggregate"
          value={metric}
          options={aggregation === 'cardinality' ? names : numbers}
          onChange={(next) => go({ metric: next }, { replace: true })}
        />
      )}
      <label class="labelled">
        by
        <Select value={first} options={names} onChange={(next) => setFields(next, second)} />
      </label>
      <label class="labelled">
        and
        <Select
          value={second}
          options={['', ...names]}
          label={(one) => one || 'nothing'}
          onChange={(next) => setFields(first, next)}
        />
      </label>
      <span class="grow" />
      <ChartChoice chart={chart} />
    </div>
  )
}

function ChartChoice({ chart }: { chart: string }) {
  return (
    <div class="row">
      <Button
        small
        icon="density"
        pressed={chart === 'list'}
        onClick={() => go({ chart: null }, { replace: true })}
      >
        List
      </Button>
      <Button
        small
        icon="chart"
        pressed={chart === 'lines'}
        onClick={() => go({ chart: 'lines' }, { replace: true })}
      >
        Over time
      </Button>
    </div>
  )
}

function TopList({ found }: { found: Groups }) {
  const { rows, choice: chosen, unit } = found
  if (rows.length === 0)
    return <Empty title="No groups">No record that matches has this field.</Empty>
  const most = Math.max(...rows.map((row) => Math.abs(row.value)), 1e-12)
  const counted = isCount(chosen.aggregation)
  const text = (value: number) => (counted ? short(value) : measured(value, unit))
  return (
    <table class="top-list">
      <thead>
        <tr>
          <th scope="col">
            <LogText text={chosen.fields.join(' · ')} />
          </th>
          <th scope="col" class="number">
            <LogText
              text={
                chosen.aggregation === 'count'
                  ? 'records'
                  : `${chosen.aggregation} ${chosen.metric}`
              }
            />
          </th>
          <th scope="col">
            <span class="visually-hidden">share</span>
          </th>
          {!counted && (
            <th scope="col" class="number">
              records
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.label}>
            <td class="top-name">
              <button type="button" class="link" onClick={() => narrowTo(row.by)}>
                <LogText text={row.label || '(empty)'} />
              </button>
            </td>
            <td class="number" title={exact(row.value)}>
              {text(row.value)}
            </td>
            <td class="top-bar-cell">
              <span class="top-bar" style={{ width: `${(Math.abs(row.value) / most) * 100}%` }} />
            </td>
            {!counted && <td class="number">{short(row.count)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function narrowTo(by: Record<string, unknown>): void {
  const next = Object.entries(by).reduce(
    (text, [field, value]) => withValue(text, field, value, 'included'),
    query.peek(),
  )
  go({ q: next, view: null })
}

function Lines({ found }: { found: Groups }) {
  const asTable = useSignal(false)
  const counted = isCount(found.choice.aggregation)
  if (found.series.length === 0)
    return <Empty title="No groups">No record that matches has this field.</Empty>
  return (
    <div class="group-lines">
      <div class="row">
        <Legend series={found.series} />
        <span class="grow" />
        <TableButton shown={asTable} />
      </div>
      <Chart
        label={`${found.choice.aggregation} by ${found.choice.fields.join(' and ')}`}
        kind={counted ? 'bars' : 'lines'}
        height={320}
        times={found.times}
        series={found.series}
        step={found.step}
        span={question.value.span}
        format={(value) => (counted ? short(value) : measured(value, found.unit))}
        asTable={asTable.value}
        onBrush={setSpan}
      />
    </div>
  )
}
