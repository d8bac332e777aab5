// What share of the records should arrive: the target that error budgets are counted from.
import { oneOf, stored } from '../state/stored'

export const targets = ['99', '99.9', '99.99', '99.999'] as const

/** Percent. */
export const target = stored<string>('target', '99.9', oneOf<string>(...targets))
