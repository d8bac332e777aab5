// Capacity: the current load, how long the buffers would last, and how to measure the limit.
import '../styles/pipeline.css'
import '../styles/trust.css'
import type { OutputStatus } from '../api/schema'
import { bytes, percent, rate, seconds } from '../format/numbers'
import { incoming, steady } from '../pipeline/history'
import { type Status, status } from '../state/status'
import { topologyProblem } from '../state/topology'
import { Command } from '../ui/command'
import { Figure } from '../ui/figure'
import { ScrollBox } from '../ui/scroll-box'
import { ProblemView, Skeleton } from '../ui/states'
import { bufferLasts } from './delivery'
import { Planning } from './planning'

export function Capacity() {
  const found = status.value
  if (!found) {
    const problem = topologyProblem.value
    if (problem) return <ProblemView problem={problem} />
    return <Skeleton lines={12} label="Loading the current load" />
  }
  const taken = steady('bytes')
  return (
    <div class="scroll pipeline-main">
      <Now document={found} taken={taken} />
      <Buffers document={found} taken={taken} />
      <Planning />
      <Measuring />
    </div>
  )
}

interface Props {
  document: Status
  /** Bytes a second. */
  taken: number | undefined
}

function Now({ document, taken }: Props) {
  const records = incoming(document) ?? 0
  const cpu = steady('cpu')
  const cost = cpu !== undefined && records > 0 ? cpu / records : undefined
  return (
    <section class="figures" aria-label="Current load">
      <Figure
        name="incoming"
        value={rate(records)}
        note={taken === undefined ? 'lines' : `lines, ${bytes(taken)}/s`}
      />
      <Figure
        name="CPU"
        value={cpu === undefined ? '…' : percent(cpu)}
        note="of one core, for the whole process"
      />
      <Figure
        name="CPU per line"
        value={cost === undefined ? '–' : seconds(cost)}
        note={cost === undefined ? 'no incoming lines' : 'decreases as the rate grows'}
      />
      <Figure name="memory" value={bytes(document.resident_bytes)} note="of the whole process" />
    </section>
  )
}

function Buffers({ document, taken }: Props) {
  // Drains that lag have streams of their own, and nobody waits for them.
  const outputs = document.outputs.filter(
    ({ book }) => book.active && book.buffer_bytes_max > 0 && !/^drains(\/|$)/.test(book.name),
  )
  if (outputs.length === 0) return null
  return (
    <section class="panel" aria-label="Buffers">
      <header>
        <h2>Time until buffers are full</h2>
        <span class="quiet">
          estimated for a destination that stops accepting records, at the current incoming rate
        </span>
      </header>
      <ScrollBox className="ledger" label="Table of buffers">
        <table>
          <thead>
            <tr>
              <th scope="col">output</th>
              <th scope="col" class="number">
                used
              </th>
              <th scope="col" class="number">
                buffer
              </th>
              <th scope="col" class="number">
                lasts
              </th>
              <th scope="col">then</th>
            </tr>
          </thead>
          <tbody>
            {outputs.map((output) => (
              <BufferRow key={output.book.name} output={output} incoming={taken} />
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </section>
  )
}

function BufferRow({ output, incoming }: { output: OutputStatus; incoming: number | undefined }) {
  const { book } = output
  const lasts = bufferLasts(book.buffer_bytes_max - book.pending_bytes, incoming)
  return (
    <tr>
      <th scope="row">{book.name}</th>
      <td class="number">{bytes(book.pending_bytes)}</td>
      <td class="number">{bytes(book.buffer_bytes_max)}</td>
      <td class="number">{lasts === undefined ? '–' : seconds(lasts)}</td>
      <td>
        {book.when_full === 'block'
          ? 'its sources are blocked'
          : 'the oldest are discarded and counted'}
      </td>
    </tr>
  )
}

function Measuring() {
  return (
    <section class="panel" aria-label="Measuring">
      <header>
        <h2>Measure the limit of this machine</h2>
      </header>
      <div class="measuring">
        <p>
          The figures above show the current load. To find the maximum, increase the rate in steps
          and watch where lines wait or are lost.
        </p>
        <Command
          text="weir load file --rate 10000 --duration 60s"
          does="Numbered lines at a known rate. Increase it until the lag on the pipeline screen grows."
        />
        <Command text="weir top" does="Rates, lag, fill level and loss under load." />
        <Command
          text="weir ledger"
          does="Exact counts of delivered and lost records after each step."
        />
      </div>
    </section>
  )
}
