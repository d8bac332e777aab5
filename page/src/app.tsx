// The frame of every screen: the bar at the top with weir's state, the current screen, and
// everything that can appear above it.
import { computed, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { reach, signInNeeded } from './api/client'
import { ExportPanel } from './explore/export-panel'
import { Explore } from './explore/screen'
import { plainText } from './format/log-text'
import { exact, rate, short } from './format/numbers'
import { ago } from './format/times'
import { Help } from './help'
import { totalsOf } from './pipeline/figures'
import { incoming, keepHistory, lastIncoming } from './pipeline/history'
import { SignIn } from './sign-in'
import { follow, link, parameter, type Screen, screen } from './state/location'
import { isSignedIn, maySee, seesEverything, signOut } from './state/session'
import { theme } from './state/settings'
import { health, status } from './state/status'
import { Boundary } from './ui/boundary'
import { IconButton } from './ui/button'
import { Icon } from './ui/icon'
import { useKeys } from './ui/keys'
import { lazy, Suspense } from './ui/lazy'
import { MenuHost, openMenu } from './ui/menu'
import { NotifyHost, notify } from './ui/notify'
import { Empty, Skeleton, sentence } from './ui/states'

const Live = lazy(() => import('./live/screen').then((part) => part.Live))
const Pipeline = lazy(() => import('./pipeline/screen').then((part) => part.Pipeline))
const Drains = lazy(() => import('./drains/screen').then((part) => part.Drains))
const Reliability = lazy(() => import('./trust/reliability').then((part) => part.Reliability))
const Capacity = lazy(() => import('./trust/capacity').then((part) => part.Capacity))

const screens: Array<{ id: Screen; label: string; keys: string }> = [
  { id: 'explore', label: 'Explore', keys: 'g e' },
  { id: 'live', label: 'Live', keys: 'g l' },
  { id: 'pipeline', label: 'Pipeline', keys: 'g p' },
  { id: 'drains', label: 'Drains', keys: 'g d' },
  { id: 'reliability', label: 'Reliability', keys: 'g r' },
  { id: 'capacity', label: 'Capacity', keys: 'g c' },
]

const query = parameter('q')

/** Screens with a query. */
const asks = new Set<Screen>(['explore', 'live'])

/** The address of a screen, with the query if that screen has one. */
function addressOf(target: Screen): string {
  return link(asks.has(target) ? { q: query.value } : {}, target)
}

export function App() {
  const helpShown = useSignal(false)
  useEffect(keepHistory, [])
  useKeys([
    ...screens.map(({ id, label, keys }) => ({
      keys,
      does: `go to ${label}`,
      group: 'Everywhere' as const,
      run: () => {
        if (screensShown().some((one) => one.id === id)) follow(addressOf(id))
      },
    })),
    {
      keys: '?',
      does: 'show keyboard shortcuts',
      group: 'Everywhere',
      run: () => {
        helpShown.value = true
      },
    },
  ])
  return (
    <>
      <TopBar
        onHelp={() => {
          helpShown.value = true
        }}
      />
      <Unreachable />
      <main id="main" tabIndex={-1}>
        <Title />
        {signInNeeded.value ? (
          <SignIn onSignedIn={startAgain} />
        ) : (
          <Boundary key={screen.value}>
            <Current />
          </Boundary>
        )}
      </main>
      {helpShown.value && (
        <Help
          onClose={() => {
            helpShown.value = false
          }}
        />
      )}
      <ExportPanel />
      <MenuHost />
      <NotifyHost />
    </>
  )
}

/** The screens that the reader may see. */
function screensShown() {
  return signInNeeded.value ? [] : screens.filter(({ id }) => maySee(id))
}

/** Reloads the page; the address restores everything. */
function startAgain(): void {
  window.location.reload()
}

function Title() {
  const name = screens.find(({ id }) => id === screen.value)?.label ?? ''
  const asked = asks.has(screen.value) ? query.value : ''
  useEffect(() => {
    document.title = [plainText(asked), name, 'weir'].filter(Boolean).join(' · ')
  }, [asked, name])
  return <h1 class="visually-hidden">{name}</h1>
}

function Current() {
  if (!maySee(screen.value)) return <Withheld />
  const waiting = <Skeleton lines={14} label="Loading" />
  switch (screen.value) {
    case 'live':
      return <Suspense fallback={waiting} part={Live} />
    case 'pipeline':
      return <Suspense fallback={waiting} part={Pipeline} />
    case 'drains':
      return <Suspense fallback={waiting} part={Drains} />
    case 'reliability':
      return <Suspense fallback={waiting} part={Reliability} />
    case 'capacity':
      return <Suspense fallback={waiting} part={Capacity} />
    case 'explore':
      return <Explore />
  }
}

/** Shown in place of a screen that the user may not see. */
function Withheld() {
  return (
    <Empty
      title="Your token does not permit this"
      actions={
        <a class="button primary" href={addressOf('explore')}>
          Explore
        </a>
      }
    >
      <p>It may only be used to read the records of your applications.</p>
    </Empty>
  )
}

function TopBar({ onHelp }: { onHelp: () => void }) {
  const tabs = useRef<HTMLElement>(null)
  const shown = screen.value
  // On a phone not all of them fit.
  useEffect(() => {
    const tab = tabs.current?.querySelector(`[data-screen="${shown}"]`)
    tab?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [shown])
  return (
    <header class="topbar">
      <button type="button" class="skip button primary" onClick={toContent}>
        Skip to content
      </button>
      <a class="brand" href={link({}, 'explore')} aria-label="weir">
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <rect width="32" height="32" rx="7" fill="#0b6e86" />
          <path
            d="M6 11h9v10h11"
            fill="none"
            stroke="#fff"
            stroke-width="3"
            stroke-linecap="round"
            stroke-linejoin="round"
          />
          <path
            d="M6 25c2.500-2 5-2 7.500 0s5 2 7.500 0 3-2 5-1"
            fill="none"
            stroke="#9fe0ee"
            stroke-width="2.500"
            stroke-linecap="round"
          />
        </svg>
        <span>weir</span>
      </a>
      <nav ref={tabs} class="tabs" aria-label="Screens">
        {screensShown().map(({ id, label, keys }) => (
          <a
            key={id}
            class="tab"
            data-screen={id}
            data-label={label}
            href={addressOf(id)}
            title={`${label} (${keys})`}
            aria-current={screen.value === id ? 'page' : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      <div class="side">
        {seesEverything.value && <Pulse />}
        <ThemeButton />
        {isSignedIn.value && <SignOutButton />}
        <IconButton icon="keyboard" label="Keyboard shortcuts" keys="?" onClick={onHelp} />
      </div>
    </header>
  )
}

function SignOutButton() {
  const leave = async () => {
    const problem = await signOut()
    if (problem) notify(sentence(problem.document.title))
    else startAgain()
  }
  return <IconButton icon="leave" label="Sign out" onClick={leave} />
}

function toContent(): void {
  document.getElementById('main')?.focus()
}

const pulse = computed(() => {
  const document = status.value
  if (!document) return undefined
  return { ...totalsOf(document), rate: incoming(document) }
})

/** The label of the rate, or since when nothing has arrived. */
function incomingText(perSecond: number | undefined): string {
  if (perSecond === undefined) return 'received'
  return perSecond === 0 && lastIncoming.value > 0
    ? `last ${ago(lastIncoming.value, Date.now())}`
    : 'incoming'
}

/** The incoming rate and losses, on every screen. */
function Pulse() {
  const found = pulse.value
  const problems = health.value?.reasons ?? []
  if (reach.value === 'unreachable') {
    return (
      <span class="pulse">
        <span class="dot bad" /> disconnected
      </span>
    )
  }
  if (!found) return null
  const loss = found.lost + found.deadLettered
  const tone = !found.balanced || loss > 0 ? 'bad' : problems.length > 0 ? 'caution' : 'good'
  return (
    <a class="pulse" href={addressOf('pipeline')} title="The pipeline and its books">
      <span class="item">
        <span class={`dot ${tone}`} />
        <strong>{found.rate === undefined ? short(found.taken) : rate(found.rate)}</strong>
        <span class="wide">{incomingText(found.rate)}</span>
      </span>
      <span class="item" title={`${exact(loss)} records lost or dead-lettered`}>
        <strong>{short(loss)}</strong> lost
      </span>
      {problems.length > 0 && (
        <span class="badge caution" title={problems.map((one) => one.text).join('; ')}>
          <Icon name="warning" /> {problems.length}
          <span class="wide"> {problems.length === 1 ? 'problem' : 'problems'}</span>
        </span>
      )}
      {!found.balanced && (
        <span class="badge bad">
          <Icon name="warning" />
          <span class="wide">the books do not balance</span>
          <span class="narrow">unbalanced</span>
        </span>
      )}
    </a>
  )
}

function ThemeButton() {
  const icon = { system: 'screen', light: 'sun', dark: 'moon' } as const
  return (
    <IconButton
      icon={icon[theme.value]}
      label="Theme"
      onClick={(event) =>
        openMenu(event.currentTarget as HTMLElement, 'Theme', [
          {
            items: [
              { label: 'System', icon: 'screen', run: () => setTheme('system') },
              { label: 'Light', icon: 'sun', run: () => setTheme('light') },
              { label: 'Dark', icon: 'moon', run: () => setTheme('dark') },
            ],
          },
        ])
      }
    />
  )
}

function setTheme(next: 'system' | 'light' | 'dark'): void {
  theme.value = next
}

function Unreachable() {
  if (reach.value !== 'unreachable') return <div />
  return (
    <div class="notice bad" role="alert">
      <strong>weir is not responding.</strong>
      <span>The page shows the last data received, and retries automatically.</span>
    </div>
  )
}
