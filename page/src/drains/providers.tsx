// The providers of drains: the servers that list them.
import type { DrainProviderEntry } from '../api/schema'
import { exact } from '../format/numbers'
import { ScrollBox } from '../ui/scroll-box'

export function Providers({ providers }: { providers: DrainProviderEntry[] }) {
  if (providers.length === 0) return null
  return (
    <section class="panel" aria-label="Providers of drains">
      <header>
        <h2>Providers of drains</h2>
      </header>
      <ScrollBox className="ledger" label="Table of providers">
        <table>
          <thead>
            <tr>
              <th scope="col">provider</th>
              <th scope="col" class="number">
                drains
              </th>
              <th scope="col" class="number">
                invalid
              </th>
              <th scope="col" class="number">
                requests
              </th>
              <th scope="col" class="number">
                failures
              </th>
              <th scope="col">last error</th>
            </tr>
          </thead>
          <tbody>
            {providers.map((provider) => (
              <tr key={provider.name}>
                <th scope="row">{provider.name.replaceAll('_', ' ')}</th>
                <td class="number">{exact(provider.drains)}</td>
                <td class="number">{exact(provider.rejected)}</td>
                <td class="number">{exact(provider.refreshes)}</td>
                <td class="number">{exact(provider.errors)}</td>
                <td class={provider.error ? '' : 'quiet'}>{provider.error ?? 'none'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </section>
  )
}
