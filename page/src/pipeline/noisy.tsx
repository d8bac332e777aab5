// The services that write most: stored records of the last five minutes.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { post } from '../api/client'
import { exact, percent, rate } from '../format/numbers'
import { quoteValue } from '../query/quote'
import { link } from '../state/location'
import { createResource } from '../state/resource'
import { LogText } from '../ui/log-text'
import { Skeleton } from '../ui/states'

interface Key {
  name: string
  count: number
}

const minutes = 5
const listed = 8
const askEvery = 10_000
const fields = ['service', 'host', 'source'] as const

export function NoisyKeys() {
  const field = useSignal<(typeof fields)[number]>('service')
  const keys = useSignal(createResource<{ keys: Key[]; all: number }>()).value
  const by = field.value
  useEffect(() => {
    const ask = () => keys.ask((signal) => load(by, signal))
    ask()
    const timer = window.setInterval(() => !document.hidden && ask(), askEvery)
    return () => window.clearInterval(timer)
  }, [by, keys])
  return (
    <section class="panel" aria-label="Top writers">
      <header>
        <h2>Top writers</h2>
        <span class="quiet grow">stored in the last {minutes} minutes</span>
        <select
          class="field small"
          aria-label="Group by"
          value={by}
          onChange={(event) => {
            field.value = event.currentTarget.value as (typeof fields)[number]
          }}
        >
          {fields.map((one) => (
            <option key={one} value={one}>
              by {one}
            </option>
          ))}
        </select>
      </header>
      <Body found={keys.data.value} failed={keys.problem.value !== undefined} by={by} />
    </section>
  )
}

async function load(by: string, signal: AbortSignal) {
  const body = {
    filter: { query: '', from: `now-${minutes}m`, to: 'now' },
    compute: [{ aggregation: 'count' }],
    group_by: [{ facet: by, limit: listed, missing: '(none)' }],
  }
  const answer = await post('/api/v2/logs/analytics/aggregate', body, signal)
  const keys = answer.data.buckets.map((bucket) => ({
    name: `${bucket.by[by] ?? ''}`,
    count: Number(bucket.computes.c0 ?? 0),
  }))
  return { keys, all: answer.meta.weir.matched ?? 0 }
}

interface BodyProps {
  found: { keys: Key[]; all: number } | undefined
  failed: boolean
  by: string
}

function Body({ found, failed, by }: BodyProps) {
  if (!found) {
    if (failed) return <p class="panel-note quiet">Not available: the store is not responding.</p>
    return <Skeleton lines={5} label="Counting" />
  }
  if (found.keys.length === 0)
    return <p class="panel-note quiet">No records were stored in this time.</p>
  const most = Math.max(...found.keys.map((key) => key.count), 1)
  return (
    <ol class="noisy">
      {found.keys.map((key) => (
        <li key={key.name}>
          <a
            class="noisy-name"
            href={link(
              { q: `${by}:${quoteValue(key.name)}`, from: `now-${minutes}m`, to: 'now' },
              'explore',
            )}
          >
            <LogText text={key.name} />
          </a>
          <span class="noisy-lane">
            <span class="top-bar" style={{ width: `${(key.count / most) * 100}%` }} />
          </span>
          <span class="number" title={`${exact(key.count)} records`}>
            {rate(key.count / (minutes * 60))}
          </span>
          <span class="number quiet">{percent(key.count / Math.max(found.all, 1))}</span>
        </li>
      ))}
    </ol>
  )
}
