"""Which engines an agent watches, and which cards they run on."""

from __future__ import annotations

import pytest

from metrics_agent.gpu import GpuReading, NvmlState, memory_of
from metrics_agent.targets import targets
from tidegate.domain.errors import ConfigError
from tidegate.domain.topology import Cluster, Endpoint, Topology
from tidegate.settings.config_file import parse


def topology(*endpoints):
    return Topology(clusters=(Cluster(name="c", models=(), endpoints=endpoints),))


NAMED = topology(Endpoint("a:1", node="one"), Endpoint("b:1", node="two"), Endpoint("c:1"))
NAMELESS = topology(Endpoint("a:1"), Endpoint("b:1", gpus=(0,)))


@pytest.mark.parametrize(
    ("expected", "file", "all_nodes"),
    [
        pytest.param(["a:1"], NAMED, False, id="own-node"),
        pytest.param(["a:1", "b:1", "c:1"], NAMED, True, id="all-nodes"),
        pytest.param(["a:1", "b:1"], NAMELESS, False, id="file-names-no-node"),
        pytest.param([], topology(), False, id="no-endpoints"),
    ],
)
def test_agent_watches(expected, file, all_nodes):
    assert [t.address for t in targets(file, "one", all_nodes=all_nodes)] == expected


CARDS = GpuReading(
    nvml=NvmlState.OK,
    gpus={
        "GPU-aa11": {"index": 0, "vram_free_bytes": 30, "vram_total_bytes": 100},
        "GPU-aa22": {"index": 1, "vram_free_bytes": 0, "vram_total_bytes": 100},
        "GPU-bb33": {"index": 2, "vram_free_bytes": None, "vram_total_bytes": None},
    },
)


@pytest.mark.parametrize(
    ("expected", "wanted"),
    [
        pytest.param((30, 100), (0,), id="index"),
        pytest.param((30, 200), (0, 1), id="two-cards"),
        pytest.param((0, 100), ("GPU-aa22",), id="uuid"),
        pytest.param((30, 100), ("GPU-aa1",), id="short-uuid"),
        pytest.param((None, None), ("GPU-aa",), id="ambiguous"),
        pytest.param((None, None), ("",), id="empty"),
        pytest.param((None, None), (0, 2), id="one-does-not-tell"),
        pytest.param((None, None), (7,), id="absent"),
        pytest.param((None, None), (), id="no-card-named"),
    ],
)
def test_memory_of_an_engine(expected, wanted):
    assert memory_of(CARDS, wanted) == expected


def test_file_pins_an_engine_and_names_its_metrics_page():
    endpoint = "{address: 'a:1', engine: ray-vllm, metrics: '10.0.0.9:8080/metrics'}"
    file = parse(f"clusters: [{{name: c, models: [m], endpoints: [{endpoint}]}}]", "f.yaml")
    [target] = targets(file.topology, "n", all_nodes=False)
    assert (target.engine, target.metrics) == ("ray-vllm", "10.0.0.9:8080/metrics")


@pytest.mark.parametrize("key", ["engine: lmdeploy", "metrics: a", "metrics: 'a:1/x y'", "metrics: 'http://a:1/x'"])
def test_engine_that_the_table_lacks_and_page_that_is_no_place_are_faults(key):
    with pytest.raises(ConfigError):
        parse(f"clusters: [{{name: c, models: [m], endpoints: [{{address: 'a:1', {key}}}]}}]", "f.yaml")
