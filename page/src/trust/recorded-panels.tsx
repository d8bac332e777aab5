// Reliability by window and loss by rate, from weir's readings of its own books.
import type { Signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { get } from '../api/client'
import type {
  RateEntry,
  ReliabilityDocument,
  ReliabilityEntry,
  Window,
  WindowEntry,
} from '../api/schema'
import { exact, percent, seconds, short } from '../format/numbers'
import { brief } from '../format/times'
import { stored } from '../state/stored'
import { ScrollBox } from '../ui/scroll-box'
import { Select } from '../ui/select'
import { ProblemView, Skeleton, sentence } from '../ui/states'
import { budgetLeft, budgetText, ratioText } from './delivery'
import { Losses } from './losses'
import {
  rangeText,
  ranShare,
  recorded,
  shorterThanNamed,
  steps,
  windowNames,
  windows,
} from './recorded'
import { target, targets } from './target'

/** Readings are a minute apart, but an answer has the books as they are now. */
const askEvery = 10_000

/** Whether there are readings, or it is known that there are none. */
export function useRecorded(): boolean {
  useEffect(() => {
    const load = () => {
      if (!document.hidden) recorded.ask((signal) => get('/weir/v1/reliability', {}, signal))
    }
    load()
    const timer = window.setInterval(load, askEvery)
    return () => window.clearInterval(timer)
  }, [])
  return recorded.data.value !== undefined || recorded.problem.value !== undefined
}

export function Recorded() {
  const found = recorded.data.value
  if (!found) {
    const problem = recorded.problem.value
    return problem ? <ProblemView problem={problem} /> : null
  }
  return (
    <>
      <Windows found={found} />
      <LossOverRate found={found} />
    </>
  )
}

function Windows({ found }: { found: ReliabilityDocument }) {
  return (
    <section class="panel recorded" aria-label="Windows">
      <header>
        <h2>Arrived, by window</h2>
        <span class="quiet">
          with the error budget that is left; read each minute since{' '}
          {brief(Date.parse(found.recorded_since))}
        </span>
        <label class="labelled target-choice">
          target
          <Select
            value={target.value}
            options={[...targets]}
            label={(one) => `${one} %`}
            onChange={(next) => {
              target.value = next
            }}
          />
        </label>
      </header>
      {found.problem && (
        <p class="notice caution">The readings do not survive a restart: {found.problem}.</p>
      )}
      <ScrollBox className="ledger" label="Table of windows">
        <table>
          <thead>
            <tr>
              <th scope="col">component</th>
              {windows.map((window) => (
                <th key={window} scope="col" class="number">
                  {windowNames[window]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <Ran found={found} />
            {found.components.map((one) => (
              <Component key={keyOf(one)} one={one} />
            ))}
          </tbody>
        </table>
      </ScrollBox>
      {found.left_out > 0 && (
        <p class="panel-note quiet">
          {found.left_out} more are not recorded: weir records 100 components.
        </p>
      )}
    </section>
  )
}

function keyOf({ kind, name }: ReliabilityEntry): string {
  return `${kind}:${name}`
}

function nameOf({ kind, name }: ReliabilityEntry): string {
  return kind === 'source' ? `from ${name}` : `to ${name}`
}

/** For which part of each window weir ran; and how long it was, where its name promises more. */
function Ran({ found }: { found: ReliabilityDocument }) {
  const entries = found.components[0]?.windows ?? []
  return (
    <tr>
      <th scope="row">weir ran</th>
      {entries.map(({ window, from, running_seconds }) => {
        const share = ranShare(running_seconds, from, found.time)
        const length = shorterThanNamed(window, from, found.time)
        return (
          <td key={window} class="number">
            {share === undefined ? '–' : percent(Math.round(share * 1_000) / 1_000)}
            {length !== undefined && <small class="quiet">of {seconds(length)} so far</small>}
          </td>
        )
      })}
    </tr>
  )
}

function Component({ one }: { one: ReliabilityEntry }) {
  return (
    <tr>
      <th scope="row">{nameOf(one)}</th>
      {one.windows.map((entry) => (
        <Cell key={entry.window} entry={entry} />
      ))}
    </tr>
  )
}

function Cell({ entry }: { entry: WindowEntry }) {
  const left = budgetLeft(entry, Number(target.value) / 100)
  const { received, delivered, lost, lossy_minutes } = entry
  const said = [
    `${exact(received)} received, ${exact(delivered)} delivered, ${exact(lost)} lost`,
    lost > 0 && `in ${exact(lossy_minutes)} of the minutes`,
  ].filter(Boolean)
  return (
    <td class={`number ratio${lost > 0 ? ' loss' : ''}`} title={said.join(' ')}>
      {ratioText(entry)}
      {left !== undefined && (
        <small class={left < 0 ? 'loss' : 'quiet'}>budget {budgetText(left)}</small>
      )}
      {lost > 0 && <small>{short(lost)} lost</small>}
    </td>
  )
}

const isName = (value: unknown): value is string => typeof value === 'string'
const isWindow = (value: unknown): value is Window => windows.includes(value as Window)
/** Of which component and window loss over rate is shown. */
const component = stored<string>('loss-of', '', isName)
const length = stored<Window>('loss-window', '1d', isWindow)

function LossOverRate({ found }: { found: ReliabilityDocument }) {
  const outputs = found.components.filter(({ kind }) => kind === 'output')
  const chosen =
    found.components.find((one) => keyOf(one) === component.value) ??
    outputs[0] ??
    found.components[0]
  const [kind, name, window] = [chosen?.kind, chosen?.name, length.value]
  useEffect(() => {
    if (!kind || !name) return
    steps.ask((signal) => get('/weir/v1/reliability/steps', { kind, name, window }, signal))
  }, [kind, name, window, found.time])
  if (!chosen) return null
  const byRate = steps.data.value?.rates ?? []
  return (
    <section class="panel loss-over-rate" aria-label="Loss over rate">
      <header>
        <h2>Loss over rate</h2>
        <span class="quiet">minutes grouped by rate: the capacity is where loss begins</span>
        <span class="target-choice loss-choice">
          <Choice
            name="Component"
            value={keyOf(chosen)}
            options={found.components.map(keyOf)}
            label={(key) => nameOf(found.components.find((one) => keyOf(one) === key) ?? chosen)}
            target={component}
          />
          <Choice
            name="Window"
            value={window}
            options={windows}
            label={(one) => windowNames[one as Window]}
            target={length as Signal<string>}
          />
        </span>
      </header>
      {byRate.length > 0 ? <Rates byRate={byRate} /> : <NoRates />}
      {byRate.length > 0 && <Losses steps={steps.data.value?.steps ?? []} />}
    </section>
  )
}

function NoRates() {
  const problem = steps.problem.value
  if (!problem && !steps.data.value) return <Skeleton lines={4} label="Loading the rates" />
  const text = problem ? sentence(problem.document.title) : 'Nothing was received in this window.'
  return <p class="panel-note quiet">{text}</p>
}

interface ChoiceProps {
  name: string
  value: string
  options: string[]
  label: (value: string) => string
  target: Signal<string>
}

function Choice({ name, value, options, label, target: chosen }: ChoiceProps) {
  return (
    <Select
      name={name}
      value={value}
      options={options}
      label={label}
      onChange={(next) => {
        chosen.value = next
      }}
    />
  )
}

function Rates({ byRate }: { byRate: RateEntry[] }) {
  const firstLoss = byRate.find((one) => one.lost > 0)
  return (
    <ScrollBox className="ledger" label="Table of loss over rate">
      <table>
        <thead>
          <tr>
            <th scope="col">incoming</th>
            {['for', 'received', 'lost', 'loss'].map((name) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {byRate.map((one) => {
            const share = one.lost / Math.max(1, one.delivered + one.lost)
            return (
              <tr key={one.from}>
                <th scope="row">
                  {rangeText(one)}
                  {one === firstLoss && <span class="badge bad rate-badge">loss begins</span>}
                </th>
                <td class="number">{seconds(one.running_seconds)}</td>
                <td class="number" title={exact(one.received)}>
                  {short(one.received)}
                </td>
                <td class={`number${one.lost > 0 ? ' loss' : ' quiet'}`} title={exact(one.lost)}>
                  {short(one.lost)}
                </td>
                <td class={`number${one.lost > 0 ? ' loss' : ''}`}>{percent(share)}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </ScrollBox>
  )
}
