// The current user: what weir permits, signing in and signing out. The token is not kept here; weir
// sets a cookie that scripts cannot read.
import { computed, signal } from '@preact/signals'
import { asProblem, change, get, type Problem, post, rootPath, signInNeeded } from '../api/client'
import type { SessionDocument } from '../api/schema'
import type { Screen } from './location'

export type Role = 'anyone' | 'operator' | 'reader' | 'developer'

/** Until weir has responded, no screen is left out. */
export const role = signal<Role | undefined>(undefined)

/** The screens that show records or drains of single applications. */
const ofApplications = new Set<Screen>(['explore', 'live', 'drains'])

/** Whether the reader may see more than some applications. */
export const seesEverything = computed(() => role.value !== 'developer')

/** Whether the user may change what all users share. */
export const mayChange = computed(() => role.value !== 'developer' && role.value !== 'reader')

/** Whether the reader has signed in, and may sign out. */
export const isSignedIn = computed(
  () => !signInNeeded.value && role.value !== undefined && role.value !== 'anyone',
)

export function maySee(screen: Screen): boolean {
  return seesEverything.value || ofApplications.has(screen)
}

const path = '/weir/v1/session'

export async function loadSession(): Promise<void> {
  try {
    const found: SessionDocument = await get(path, {})
    role.value = found.role as Role
  } catch {
    // Every request tells whether to sign in, and whether weir can be reached.
  }
}

/** Signs in with a token, also as `cf oauth-token` prints it; gives the problem if there is one. */
export async function signIn(typed: string): Promise<Problem | undefined> {
  const token = typed.trim().replace(/^bearer\s+/i, '')
  try {
    const found: SessionDocument = await post(path, { token, path: rootPath })
    role.value = found.role as Role
    signInNeeded.value = false
    return undefined
  } catch (error) {
    return asProblem(error)
  }
}

export async function signOut(): Promise<Problem | undefined> {
  try {
    await change<SessionDocument>('DELETE', path)
    role.value = undefined
    signInNeeded.value = true
    return undefined
  } catch (error) {
    return asProblem(error)
  }
}
