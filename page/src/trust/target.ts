// The target for the share of records that should arrive, from which error budgets are computed.
import { oneOf, stored } from '../state/stored'

export const targets = ['99', '99.9', '99.99', '99.999'] as const

/** Percent. */
export const target = stored<string>('target', '99.9', oneOf<string>(...targets))
