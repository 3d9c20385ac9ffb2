"""Dashboards as values, and the JSON that Grafana reads.

`board` says what a dashboard is made of, `render` makes Grafana's JSON of one, each of `boards/` states one, `build`
writes them to `dashboards/` (`make dashboards`). A panel's queries name metrics of docs/metrics.md and recording rules
of deploy/prometheus/rules; tests hold them to both.
"""
