// Contains an error in a part of the page, so that the rest, such as the links to other screens,
// still works.
import { Component, type ComponentChildren } from 'preact'
import { ReloadButton } from './button'
import { Empty } from './states'

interface BoundaryProps {
  children: ComponentChildren
}

export class Boundary extends Component<BoundaryProps, { failed: boolean }> {
  override state = { failed: false }

  static override getDerivedStateFromError() {
    return { failed: true }
  }

  override render() {
    if (!this.state.failed) return this.props.children
    return (
      <Empty title="This screen could not be drawn" actions={<ReloadButton />}>
        <p>This is a bug in the page; the browser's console has the details.</p>
      </Empty>
    )
  }

  override componentDidCatch(error: unknown) {
    console.error(error)
  }
}
