// Live tail: records as they arrive. Nothing moves while the user reads; what was skipped or missed
// is always shown.
import { useComputed } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import '../styles/live.css'
import { QueryBar } from '../query/bar'
import { go, link, parameter } from '../state/location'
import { wrap } from '../state/settings'
import { Button, IconButton } from '../ui/button'
import { useKeys } from '../ui/keys'
import { ProblemView } from '../ui/states'
import { LiveDrawer, openedRow } from './drawer'
import { LiveList } from './list'
import { RateBar } from './rate-bar'
import {
  clearRows,
  follow,
  following,
  markNow,
  pause,
  startTail,
  stopTail,
  tailProblem,
  tailState,
} from './tail'

const query = parameter('q')
const rate = parameter('rate')
const words = parameter('mark')

const usualRate = 500

export function Live() {
  const asked = query.value
  const maxRate = Number(rate.value) || usualRate
  useEffect(() => {
    startTail(asked, maxRate)
    return stopTail
  }, [asked, maxRate])
  useLiveKeys()
  const refused = useComputed(() =>
    tailState.value === 'refused' ? tailProblem.value : undefined,
  ).value
  return (
    <div class="live">
      <div class="ask">
        <QueryBar
          action="Follow"
          settled={tailState.value !== 'connecting'}
          query={asked}
          problem={tailProblem.value}
          onRun={(text) => ask(text, asked, maxRate)}
        />
        <div class="ask-side">
          <Tools maxRate={maxRate} />
        </div>
      </div>
      <RateBar maxRate={maxRate} />
      <div class="live-body">
        {refused ? (
          <ProblemView
            problem={refused}
            again={() => startTail(asked, maxRate)}
            suggest={(text) => go({ q: text })}
          />
        ) : (
          <LiveList words={words.value} />
        )}
        {openedRow.value && <LiveDrawer />}
      </div>
    </div>
  )
}

function ask(text: string, before: string, maxRate: number): void {
  if (text.trim() === before) startTail(before, maxRate)
  else go({ q: text.trim() })
}

function useLiveKeys(): void {
  const group = 'Live tail' as const
  useKeys([
    { keys: 'p', does: 'pause and resume', group, run: togglePause },
    { keys: 'c', does: 'clear', group, run: clearRows },
    { keys: 'm', does: 'insert a marker', group, run: markNow },
    { keys: 'G', does: 'go to the newest', group, run: follow },
    { keys: 'k', does: 'previous record; Enter opens it', group, run: () => stepRow(-1) },
    { keys: 'j', does: 'next record', group, run: () => stepRow(1) },
    {
      keys: 'w',
      does: 'wrap long lines',
      group,
      run: () => {
        wrap.value = !wrap.peek()
      },
    },
    {
      keys: 'Escape',
      does: 'close the record',
      group,
      run: () => {
        openedRow.value = undefined
      },
    },
  ])
}

/** Moves the focus to the previous or next row; at first, to the newest one on the screen. */
function stepRow(by: number): void {
  pause()
  const place = (row: HTMLElement) => Number(row.dataset.index)
  const rows = [...document.querySelectorAll<HTMLElement>('.live-row')]
  const inOrder = rows.sort((a, b) => place(a) - place(b))
  const at = inOrder.indexOf(document.activeElement as HTMLElement)
  inOrder[at < 0 ? inOrder.length - 1 : at + by]?.focus()
}

function togglePause(): void {
  if (following.peek()) pause()
  else follow()
}

function Tools({ maxRate }: { maxRate: number }) {
  const paused = !following.value
  return (
    <>
      <Button icon={paused ? 'play' : 'pause'} title="p" onClick={togglePause}>
        {paused ? 'Resume' : 'Pause'}
      </Button>
      <IconButton icon="close" label="Clear" keys="c" onClick={clearRows} />
      <IconButton icon="minus" label="Insert a marker" keys="m" onClick={markNow} />
      <IconButton
        icon="wrap"
        label="Wrap long lines"
        keys="w"
        pressed={wrap.value}
        onClick={() => {
          wrap.value = !wrap.peek()
        }}
      />
      <label class="labelled">
        <span class="wide">limit</span>
        <select
          class="field small"
          aria-label="Maximum rows per second"
          value={`${maxRate}`}
          onChange={(event) => go({ rate: event.currentTarget.value }, { replace: true })}
        >
          {[100, 500, 2_000, 5_000].map((one) => (
            <option key={one} value={`${one}`}>
              {one.toLocaleString('en')}/s
            </option>
          ))}
        </select>
      </label>
      <input
        class="field small mark-words"
        placeholder="Highlight"
        aria-label="Words to highlight"
        defaultValue={words.value}
        onInput={(event) => go({ mark: event.currentTarget.value }, { replace: true })}
      />
      <a class="button plain small wide" href={link({ q: query.value }, 'explore')}>
        Search in Explore
      </a>
    </>
  )
}
