// Rules: how often each matched, what it costs, and which never matched.
import type { RuleEntry, RulesDocument } from '../api/schema'
import { exact, percent, seconds, short } from '../format/numbers'
import { ago } from '../format/times'
import type { Resource } from '../state/resource'
import { ScrollBox } from '../ui/scroll-box'
import { Skeleton } from '../ui/states'

export function Rules({ rules }: { rules: Resource<RulesDocument> }) {
  const found = rules.data.value
  return (
    <section class="panel" aria-label="Rules">
      <header>
        <h2>Rules</h2>
        {found && (
          <span class="quiet">
            {short(found.records)} records looked at, {seconds(found.cpu_seconds)} of CPU time
          </span>
        )}
      </header>
      <Body rules={rules} />
    </section>
  )
}

function Body({ rules }: { rules: Resource<RulesDocument> }) {
  const found = rules.data.value
  if (!found) {
    if (rules.problem.value)
      return <p class="panel-note quiet">Statistics of rules are not available at the moment.</p>
    return <Skeleton lines={4} label="Loading rules" />
  }
  if (found.rules.length === 0) {
    return <p class="panel-note quiet">There are no rules: every record goes to every output.</p>
  }
  return (
    <ScrollBox className="ledger" label="Table of rules">
      <table>
        <thead>
          <tr>
            <th scope="col">rule</th>
            <th scope="col" class="number">
              hits
            </th>
            <th scope="col" class="number">
              share
            </th>
            <th scope="col" class="number">
              CPU time
            </th>
            <th scope="col" class="number">
              unparsed
            </th>
            <th scope="col">last hit</th>
          </tr>
        </thead>
        <tbody>
          {found.rules.map((rule) => (
            <Row key={rule.name} rule={rule} records={found.records} />
          ))}
          <tr>
            <th scope="row" class="quiet">
              routed by no rule
            </th>
            <td class="number" title={exact(found.unrouted)}>
              {short(found.unrouted)}
            </td>
            <td class="number">{percent(found.unrouted / Math.max(found.records, 1))}</td>
            <td />
            <td />
            <td />
          </tr>
        </tbody>
      </table>
    </ScrollBox>
  )
}

function Row({ rule, records }: { rule: RuleEntry; records: number }) {
  return (
    <tr>
      <th scope="row">
        {rule.name} {rule.hits === 0 && <span class="badge caution">never matched</span>}
      </th>
      <td class="number" title={exact(rule.hits)}>
        {short(rule.hits)}
      </td>
      <td class="number">{percent(rule.hits / Math.max(records, 1))}</td>
      <td class="number">{seconds(rule.cpu_seconds)}</td>
      <td class="number">{rule.unparsed ? short(rule.unparsed) : '0'}</td>
      <td>{rule.last_hit ? ago(Date.parse(rule.last_hit), Date.now()) : '–'}</td>
    </tr>
  )
}
