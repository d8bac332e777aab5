// The list of records, or what takes its place.
import { presets, zoomed } from '../time/range'
import { Button } from '../ui/button'
import { Empty, ProblemView, Skeleton } from '../ui/states'
import { NothingYet, nothingTaken, useFirstRecords } from './nothing-yet'
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
  const nothingYet = nothingTaken.value
  useFirstRecords(askAgain)
  if (nothingYet && !query.value) return <NothingYet again={askAgain} />
  const longest = presets.at(-1)
  return (
    <Empty
      title={query.value ? 'No record matches' : 'No records in this range'}
      actions={
        <>
          <Button icon="minus" onClick={() => setRange(zoomed(question.peek().span, 4))}>
            Widen the range four times
          </Button>
          {longest && (
            <Button icon="clock" onClick={() => setRange(longest.range)}>
              {longest.label}
            </Button>
          )}
          {query.value && (
            <Button icon="close" onClick={() => setQueryNow('')}>
              Clear the query
            </Button>
          )}
        </>
      }
    >
      <p>
        {query.value
          ? 'A longer range or fewer conditions may find something.'
          : 'There are records, but none in this range.'}
      </p>
    </Empty>
  )
}
