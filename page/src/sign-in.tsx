// The sign-in form, which is shown in place of every screen until weir accepts the user.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { signIn } from './state/session'
import { sentence } from './ui/states'

export function SignIn({ onSignedIn }: { onSignedIn: () => void }) {
  const token = useSignal('')
  const failed = useSignal('')
  const asking = useSignal(false)
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    input.current?.focus()
  }, [])
  const submit = async () => {
    asking.value = true
    const problem = await signIn(token.value)
    asking.value = false
    if (problem) {
      failed.value = sentence(problem.document.title)
      input.current?.select()
    } else {
      onSignedIn()
    }
  }
  return (
    <form
      class="sign-in"
      aria-labelledby="sign-in-title"
      onSubmit={(event) => {
        event.preventDefault()
        if (!asking.value) submit()
      }}
    >
      <h2 id="sign-in-title">Sign in</h2>
      <label for="sign-in-token">Token</label>
      <input
        ref={input}
        id="sign-in-token"
        class="field mono"
        type="password"
        required
        spellcheck={false}
        autocomplete="current-password"
        aria-invalid={failed.value !== ''}
        aria-describedby={failed.value ? 'sign-in-problem' : undefined}
        value={token.value}
        onInput={(event) => {
          token.value = event.currentTarget.value
        }}
      />
      {failed.value && (
        <p id="sign-in-problem" class="sign-in-problem" role="alert">
          {failed.value}
        </p>
      )}
      <button type="submit" class="button primary" aria-disabled={asking.value}>
        Sign in
      </button>
      <p class="quiet">
        A token from weir's configuration or, on Cloud Foundry, the output of{' '}
        <code>cf oauth-token</code>.
      </p>
    </form>
  )
}
