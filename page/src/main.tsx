// Entry point of the page.
import { render } from 'preact'
import './styles/tokens.css'
import './styles/base.css'
import './styles/shell.css'
import './styles/chart.css'
import './styles/tables.css'
import './styles/answers.css'
import './styles/explore.css'
import './styles/records.css'
import './styles/drawer.css'
import { App } from './app'
import { followLinks } from './state/location'
import { loadSession } from './state/session'
import { applyTheme } from './state/settings'
import { watchTopology } from './state/topology'
import { listenForKeys } from './ui/keys'
import { watchTheme } from './ui/theme'

applyTheme()
watchTheme()
listenForKeys()
followLinks()
// Not every user may see the topology.
loadSession().finally(watchTopology)

const page = document.getElementById('page')
page?.replaceChildren()
if (page) render(<App />, page)
