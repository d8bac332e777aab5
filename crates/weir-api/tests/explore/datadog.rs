//! Datadog's own client (`datadog-api-client` of PyPI): its requests are accepted, and it
//! understands the responses. Requires `WEIR_PYTHON`, a Python with this package;
//! `cargo xtask test` sets it.

use std::process::Command;

use crate::support::api;

const CLIENT: &str = r#"
import sys
from datetime import datetime, timezone
from datadog_api_client import ApiClient, Configuration
from datadog_api_client.exceptions import ApiException
from datadog_api_client.v2.api.logs_api import LogsApi
from datadog_api_client.v2.model.logs_aggregate_request import LogsAggregateRequest
from datadog_api_client.v2.model.logs_aggregation_function import LogsAggregationFunction as F
from datadog_api_client.v2.model.logs_aggregate_sort import LogsAggregateSort
from datadog_api_client.v2.model.logs_aggregate_sort_type import LogsAggregateSortType
from datadog_api_client.v2.model.logs_compute import LogsCompute
from datadog_api_client.v2.model.logs_compute_type import LogsComputeType
from datadog_api_client.v2.model.logs_group_by import LogsGroupBy
from datadog_api_client.v2.model.logs_group_by_histogram import LogsGroupByHistogram
from datadog_api_client.v2.model.logs_list_request import LogsListRequest
from datadog_api_client.v2.model.logs_list_request_page import LogsListRequestPage
from datadog_api_client.v2.model.logs_query_filter import LogsQueryFilter
from datadog_api_client.v2.model.logs_sort import LogsSort
from datadog_api_client.v2.model.logs_sort_order import LogsSortOrder

configuration = Configuration(host=sys.argv[1], api_key={"apiKeyAuth": "a", "appKeyAuth": "b"})
client = ApiClient(configuration)
logs = LogsApi(client)
filter = lambda query: LogsQueryFilter(query=query, _from="1767225600000", to="2026-01-02T00:00:00Z")

# One page, with every attribute typed.
page = logs.list_logs(body=LogsListRequest(filter=filter("service:web"), sort=LogsSort.TIMESTAMP_ASCENDING, page=LogsListRequestPage(limit=2)))
assert [log.attributes.message for log in page.data] == ["request 0 done", "request 10 done"], page
first = page.data[0]
assert first.attributes.timestamp == datetime(2026, 1, 1, 0, 0, 0, 123000, tzinfo=timezone.utc), first
assert first.attributes.status == "error" and first.attributes.host == "h1", first
assert first.attributes.tags == ["env:prod", "blue", "source:app", "k8s.pod.name:p"], first
assert first.attributes.attributes["http"]["status_code"] == 500, first
assert str(page.meta.status) == "done" and page.meta.page.after and page.links.next, page

# All pages, by the client's own helper; both ways.
seen = [log.id for log in logs.list_logs_with_pagination(body=LogsListRequest(filter=filter("request"), page=LogsListRequestPage(limit=7)))]
assert len(seen) == 250 == len(set(seen)), len(seen)
seen = [log.attributes.message for log in logs.list_logs_get_with_pagination(filter_query="service:web", filter_from=datetime(2026, 1, 1, tzinfo=timezone.utc), filter_to=datetime(2026, 1, 2, tzinfo=timezone.utc), sort=LogsSort.TIMESTAMP_ASCENDING, page_limit=10)]
assert seen == [f"request {n} done" for n in range(0, 250, 10)], seen
assert logs.list_logs().data == []

# Figures.
answer = logs.aggregate_logs(body=LogsAggregateRequest(
    filter=filter("*"),
    compute=[LogsCompute(aggregation=F.COUNT), LogsCompute(aggregation=F.PERCENTILE_99, metric="@duration"), LogsCompute(aggregation=F.SUM, metric="@nothing"), LogsCompute(aggregation=F.COUNT, type=LogsComputeType.TIMESERIES, interval="1m")],
    group_by=[LogsGroupBy(facet="service", limit=5, total="all", sort=LogsAggregateSort(type=LogsAggregateSortType.MEASURE, aggregation=F.COUNT, order=LogsSortOrder.DESCENDING))]))
buckets = answer.data.buckets
assert [b.by["service"] for b in buckets] == ["api", "web", "all"], buckets
assert buckets[1].computes["c0"] == 25 and buckets[2].computes["c0"] == 250, buckets
assert 235e6 < buckets[1].computes["c1"] <= 242.4e6, buckets
assert "c2" not in buckets[1].computes, buckets
points = buckets[1].computes["c3"]
points = points.value if hasattr(points, "value") else points
assert [point["value"] for point in points] == [6, 6, 6, 6, 1], points
answer = logs.aggregate_logs(body=LogsAggregateRequest(filter=filter("*"), compute=[LogsCompute(aggregation=F.COUNT)], group_by=[LogsGroupBy(facet="@http.status_code", histogram=LogsGroupByHistogram(interval=100., min=0., max=600.), missing="none")]))
assert sorted((b.by["@http.status_code"], b.computes["c0"]) for b in answer.data.buckets) == [(200, 225), (500, 25)], answer
answer = logs.aggregate_logs(body=LogsAggregateRequest(filter=filter("*"), compute=[LogsCompute(aggregation=F.CARDINALITY, metric="service")]))
assert [(b.by, b.computes["c0"]) for b in answer.data.buckets] == [({}, 2)], answer

# Errors.
try:
    logs.list_logs(body=LogsListRequest(filter=filter("(a")))
    raise AssertionError("a wrong query was taken")
except ApiException as error:
    assert error.status == 400 and "not closed" in error.body["errors"][0], error
print("as expected")
"#;

#[test]
fn datadog_client_searches_pages_and_aggregates() {
    let Some(python) = std::env::var_os("WEIR_PYTHON") else { return };
    let (api, _store) = api(250);
    let address = format!("http://{}", api.address());
    let out = Command::new(python).args(["-c", CLIENT, &address]).output().unwrap();
    let said =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains("as expected"), "{said}");
    api.shutdown();
}
