// What screens show while weir has not received any record.
import { computed } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { totalsOf } from '../pipeline/figures'
import { link } from '../state/location'
import { status } from '../state/status'
import { Button } from '../ui/button'
import { Command } from '../ui/command'
import { Empty } from '../ui/states'

/** Whether weir has certainly not received any record. */
export const nothingTaken = computed(() => {
  const document = status.value
  return document !== undefined && totalsOf(document).taken === 0
})

/** After the first records, milliseconds: by then there is more to see. */
const firstRecordsWait = 3_000

/** Requests the records again once the first ones have arrived, and once more a little later. */
export function useFirstRecords(again: () => void): void {
  const nothingYet = nothingTaken.value
  const before = useRef(nothingYet)
  useEffect(() => {
    if (before.current && !nothingYet) {
      again()
      window.setTimeout(again, firstRecordsWait)
    }
    before.current = nothingYet
  }, [nothingYet, again])
}

/** `again` checks once more; it is absent where records appear by themselves. */
export function NothingYet({ again }: { again?: () => void }) {
  return (
    <Empty
      title="No records yet"
      actions={
        <>
          <a class="button" href={link({}, 'pipeline')}>
            What weir is reading
          </a>
          {again && (
            <Button icon="refresh" onClick={again}>
              Check again
            </Button>
          )}
        </>
      }
    >
      <p>
        weir is running and has not received a record yet. For something to look at, run this in a
        terminal on the same machine, in the directory where weir was started:
      </p>
      <Command
        text="weir load demo"
        does="The logs of a small shop, with traces, queues and incidents. They appear here by themselves."
      />
      <p class="quiet">
        With a configuration of your own, add a directory whose files a source follows:{' '}
        <code>weir load demo DIR</code>.
      </p>
    </Empty>
  )
}
