// The list of records, or what stands in its place.

import { totalsOf } from '../pipeline/figures'
import { link } from '../state/location'
import { status } from '../state/status'
import { presets, zoomed } from '../time/range'
import { Button } from '../ui/button'
import { Empty, ProblemView, Skeleton } from '../ui/states'
import { askAgain, query, question, setRange } from './question'
import { RecordTable } from './record-table'
import { rows, rowsLoading, rowsMeta, rowsProblem } from './records'
import { setQueryNow } from './value-menu'

export function RecordsView() {
  const problem = rowsProblem.value
  if (problem && (problem.kind === 'refused' || rows.value.length === 0)) {
    return <ProblemView problem={problem} again={askAgain} suggest={setQueryNow} />
  }
  if (!rowsMeta.value) return <Skeleton lines={18} label="Loading records" />
  if (rows.value.length === 0 && !rowsLoading.value) return <NothingFound />
  return <RecordTable />
}

function NothingFound() {
  const document = status.data.value
  const nothingYet = document !== undefined && totalsOf(document).taken === 0
  if (nothingYet && !query.value) return <NothingYet />
  const longest = presets.at(-1)
  return (
    <Empty
      title={query.value ? 'No record matches' : 'No records in this range'}
      actions={
        <>
          <Button icon="minus" onClick={() => setRange(zoomed(question.peek().span, 4))}>
            Four times the range
          </Button>
          {longest && (
            <Button icon="clock" onClick={() => setRange(longest.range)}>
              {longest.label}
            </Button>
          )}
          {query.value && (
            <Button icon="close" onClick={() => setQueryNow('')}>
              Drop the query
            </Button>
          )}
        </>
      }
    >
      <p>
        {query.value
          ? 'A longer range or fewer conditions may find something.'
          : 'weir has records, but none of this time.'}
      </p>
    </Empty>
  )
}

function NothingYet() {
  return (
    <Empty
      title="Nothing has come in yet"
      actions={
        <>
          <a class="button" href={link({}, 'pipeline')}>
            What weir is reading
          </a>
          <Button icon="refresh" onClick={askAgain}>
            Look again
          </Button>
        </>
      }
    >
      <p>
        weir runs and waits for its first record. Something to look at comes with this, in a
        terminal where it runs:
      </p>
      <pre>weir load file</pre>
    </Empty>
  )
}
