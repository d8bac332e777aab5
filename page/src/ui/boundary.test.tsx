import { render } from 'preact'
import { expect, it, vi } from 'vitest'
import { Boundary } from './boundary'

function Broken(): never {
  throw new Error('broken')
}

it('an error in a part leaves the rest, and says what to do', async () => {
  const logged = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  render(
    <div>
      <p>the rest</p>
      <Boundary>
        <Broken />
      </Boundary>
    </div>,
    document.body,
  )
  await vi.waitFor(() => expect(document.body.textContent).toContain('could not be drawn'))
  expect(document.body.textContent).toContain('the rest')
  expect(document.body.textContent).toContain('Reload the page')
  expect(logged).toHaveBeenCalledOnce()
})
