// The aggregate call. The page uses plain names of fields; here they are escaped in requests, and
// unescaped in responses.
import { post } from '../api/client'
import type { AggregateAnswer, AggregateBody, ComputeBody, GroupByBody } from '../api/schema'
import { quoteKey, unquoteKey } from '../query/quote'

export async function aggregate(
  body: AggregateBody,
  signal: AbortSignal,
): Promise<AggregateAnswer> {
  const { compute = [], group_by = [] } = body
  const asked = {
    ...body,
    compute: compute.map(writtenMetric),
    group_by: group_by.map(writtenGroup),
  }
  const answer = await post('/api/v2/logs/analytics/aggregate', asked, signal)
  const buckets = answer.data.buckets.map((bucket) => ({ ...bucket, by: readNames(bucket.by) }))
  return { ...answer, data: { ...answer.data, buckets } }
}

function writtenMetric<Part extends Pick<ComputeBody, 'metric'>>(part: Part): Part {
  return part.metric ? { ...part, metric: quoteKey(part.metric) } : part
}

function writtenGroup(group: GroupByBody): GroupByBody {
  const sort = group.sort ? { sort: writtenMetric(group.sort) } : {}
  return { ...group, ...sort, facet: quoteKey(group.facet) }
}

function readNames(by: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(by).map(([name, value]) => [unquoteKey(name), value]))
}
