// Senders above the rate limit of their source, and what was done about it.
import type { LimitedEntry, SourceEntry } from '../api/schema'
import { exact, short } from '../format/numbers'
import { LogText } from '../ui/log-text'
import { ScrollBox } from '../ui/scroll-box'

export function QuotaKeys({ sources }: { sources: SourceEntry[] }) {
  const limited = sources.flatMap((source) =>
    source.rate_limit ? [{ name: source.name, limit: source.rate_limit }] : [],
  )
  const rows = limited.flatMap(({ name, limit }) =>
    limit.keys.map((key) => ({ source: name, limit: limit.limit, ...key })),
  )
  return (
    <section class="panel" aria-label="Limits">
      <header>
        <h2>Senders above their rate limit</h2>
        <span class="quiet">since weir was started</span>
      </header>
      {rows.length === 0 ? (
        <p class="panel-note quiet">
          {limited.length === 0
            ? 'No source limits the rate of its senders (rate_limit).'
            : `None: ${limited.map(({ name, limit }) => `${name} has a ${limit.limit}`).join('; ')}.`}
        </p>
      ) : (
        <ScrollBox className="ledger" label="Table of limits">
          <table>
            <thead>
              <tr>
                <th scope="col">sender</th>
                <th scope="col">source</th>
                <th scope="col" class="number">
                  above the limit
                </th>
                <th scope="col">action</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={`${row.source} ${row.key}`}>
                  <th scope="row">
                    <LogText text={row.key} />
                    {row.over && <span class="badge caution">now</span>}
                  </th>
                  <td>
                    {row.source} <small class="quiet">{row.limit}</small>
                  </td>
                  <td class="number" title={exact(heldBack(row))}>
                    {short(heldBack(row))}
                  </td>
                  <td>{outcome(row)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollBox>
      )}
    </section>
  )
}

function heldBack(counts: LimitedEntry): number {
  return counts.discarded_records + counts.delayed_records + counts.refused_records
}

function outcome(counts: LimitedEntry): string {
  const parts: Array<[number, string]> = [
    [counts.discarded_records, 'discarded'],
    [counts.delayed_records, 'delayed'],
    [counts.refused_records, 'refused'],
  ]
  return parts
    .filter(([count]) => count > 0)
    .map(([count, name]) => `${short(count)} ${name}`)
    .join(', ')
}
