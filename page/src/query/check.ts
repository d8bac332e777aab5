// Validates an expression with weir itself, so that there is only one parser of the language.
import { Problem, post } from '../api/client'

/** A corrected query, if weir suggests one. */
export function suggestionOf(problem: Problem): string | undefined {
  return problem.document.suggestion ?? undefined
}

/** What is wrong with an expression, or nothing. */
export async function checkQuery(query: string): Promise<Problem | undefined> {
  if (query.trim() === '') return undefined
  try {
    await post('/api/v2/logs/events/search', {
      filter: { query, from: 'now-1s', to: 'now' },
      page: { limit: 1 },
    })
    return undefined
  } catch (error) {
    const refused = error instanceof Problem && error.kind === 'refused'
    return refused && error.document.parameter?.endsWith('query') ? error : undefined
  }
}
