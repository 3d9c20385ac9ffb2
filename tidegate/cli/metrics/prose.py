"""What docs/metrics.md says before its tables."""

from __future__ import annotations

from typing import Final

HEAD: Final = """# Metrics

Every service has a page for Prometheus once it is told where: `--metrics-listen 0.0.0.0:9100`. On it are `/metrics` and
`/healthz` (200 `ok`, or 503 and a sentence). `tidegate up` chooses free ports and names the pages in its ready file:

```console
$ curl -s "$(jq -r .metrics.ext_proc ready.json)" | grep decisions_total
```

The tables below are made from the registries of the services (`make docs`), and a test compares both.

## Scraping

| asked for | answered |
|---|---|
| `Accept: application/openmetrics-text` (Prometheus does) | OpenMetrics 1.0, with exemplars |
| anything else | the text format, 0.0.4 |
| `Accept-Encoding: gzip` | gzip |

Exemplars are on `tidegate_ext_proc_decision_seconds` and `tidegate_queue_wait_seconds`: the newest request of a sampled
trace that fell into each bucket, as `trace_id`. Prometheus keeps them when it is started with
`--enable-feature=exemplar-storage`.

## What to look at first

| question | expression |
|---|---|
| Do requests wait? | `sum by (cluster) (tidegate_queue_requests)` |
| For how long? | `histogram_quantile(0.95, sum by (le, cluster) (rate(tidegate_queue_wait_seconds_bucket[5m])))` |
| Who is turned away, and why? | `sum by (reason) (rate(tidegate_ext_proc_refusals_total[5m]))` |
| Do engines fail? | `sum by (cluster) (rate(tidegate_outcomes_requests_total{ending=~"fault\\|back_pressure"}[5m]))` |
| Is the objective at risk? | `tidegate_outcomes_slo_burning == 1` |
| Does Envoy take what it is told? | `tidegate_xds_last_push_refused == 1 or tidegate_xds_unacked_age_seconds > 10` |
| Which replicas are full? | `topk(5, tidegate_replica_load_ratio)`, and by what: `tidegate_replica_load_part_ratio` |
| Are samples old? | `max by (cluster) (tidegate_replica_sample_age_seconds) > 3` |
| Does one controller lead? | `sum(tidegate_controller_leads) == 1` |
| Is Redis slow? | `histogram_quantile(0.99, sum by (le) (rate(tidegate_store_round_trip_seconds_bucket[5m])))` |
| Does ext_proc keep up? | `rate(tidegate_ext_proc_decision_seconds_sum[5m])`: the share of a CPU |

## Several workers

`tidegate ext-proc --workers N` is one target: the parent's page asks each worker and joins what they say, as the
column `workers` tells. `sum` is of counters, of histograms bucket by bucket (of exemplars the newest is kept), and of
gauges of what each worker holds for itself. `largest` is of what all workers see alike, `least` of what is worst when
it is small. A worker that dies takes no counts along: what it had counted when the page was last read stays in the
sums, which never fall; what it counted after that is lost, as with any process that dies between two scrapes.

## What they cost

`python -m bench --only metrics` compares ext_proc without metrics, with them and a scrape a second, and with 1 % of
traces beside, by turns. On two quiet cores, median of ten pairs: 1.06 and 1.09 times the CPU of a request (338 and 349
µs to 306), a scrape 2.3 ms. The aim is 1.05: it is missed.

## Labels

No value of a label is for clients to choose: names that the file does not have are counted as `other`, or not by name.
No label holds a prompt, a user's name or a secret.
"""
