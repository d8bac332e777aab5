// A component that is only rendered again when one of its properties changes.
import { Component, type ComponentType, createElement } from 'preact'

export function memo<Props extends object>(inner: ComponentType<Props>): ComponentType<Props> {
  return class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Readonly<Props>): boolean {
      const before = this.props as Record<string, unknown>
      const after = next as Record<string, unknown>
      return Object.keys(after).some((name) => before[name] !== after[name])
    }

    override render() {
      return createElement(inner, this.props as Props)
    }
  }
}
