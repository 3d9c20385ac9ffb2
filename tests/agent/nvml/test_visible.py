"""Which cards a process uses, by what its environment or an operator names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_agent.gpu import GpuReading, NvmlState, with_gpus
from metrics_agent.gpu.visible import cards_of, cards_of_environment
from tidegate.domain.sample import EndpointSample, Status

A, B, C = "GPU-8932f937-d72c", "GPU-8932aaaa-0000", "GPU-1111bbbb-2222"
M0, M1 = "MIG-5c89852c-0001", "MIG-77777777-0002"

ALIKE = {C: {"index": 2, "name": "H200"}, A: {"index": 0, "name": "H200"}, B: {"index": 1, "name": "H200"}}
MIXED = {A: {"index": 0, "name": "T4"}, B: {"index": 1, "name": "H200"}}
PART = {"mig_parent": A, "mig_parent_index": 0}
MIG = {A: {"index": 0, "name": "H200"}, M0: PART | {"mig_slot": 0}, M1: PART | {"mig_slot": 2}, B: {"index": 1}}
ONE_PART = {A: {"index": 0}, M0: PART | {"mig_slot": 0}}


@pytest.mark.parametrize(
    ("expected", "gpus", "wanted"),
    [
        pytest.param((A,), ALIKE, (0,), id="index"),
        pytest.param((C, A), ALIKE, (2, 0), id="order-of-the-names"),
        pytest.param((A,), ALIKE, (A,), id="uuid"),
        pytest.param((A,), ALIKE, ("GPU-8932f",), id="short-uuid"),
        pytest.param((A,), ALIKE, ("gpu-8932F",), id="case"),
        pytest.param((C,), ALIKE, ("1111bb",), id="short-uuid-without-prefix"),
        pytest.param((A,), ALIKE, (0, A), id="same-card-twice"),
        pytest.param((A, B, C), ALIKE, ("all",), id="all"),
        pytest.param((), ALIKE, (), id="nothing"),
        pytest.param(None, ALIKE, ("GPU-8932",), id="ambiguous"),
        pytest.param(None, ALIKE, ("GPU-",), id="prefix-alone"),
        pytest.param(None, ALIKE, ("",), id="empty"),
        pytest.param(None, ALIKE, (7,), id="absent-index"),
        pytest.param(None, ALIKE, (-1,), id="negative-index"),
        pytest.param(None, ALIKE, (0, "GPU-nosuch"), id="one-absent"),
        pytest.param(None, {}, (0,), id="no-cards"),
        pytest.param((M0,), MIG, (M0,), id="mig-uuid"),
        pytest.param((M1,), MIG, ("MIG-7777",), id="short-mig-uuid"),
        pytest.param((M1,), MIG, ("0:2",), id="mig-by-place"),
        pytest.param(None, MIG, ("0:1",), id="mig-by-empty-place"),
        pytest.param(None, MIG, (0,), id="index-of-several-parts"),
        pytest.param((M0,), ONE_PART, (0,), id="index-of-one-part"),
        pytest.param((M0, M1, B), MIG, ("all",), id="all-with-mig"),
        pytest.param((A, C), ALIKE, ("CUDA_VISIBLE_DEVICES=0,2",), id="cuda-variable"),
        pytest.param((C,), ALIKE, ("NVIDIA_VISIBLE_DEVICES=1,2", "CUDA_VISIBLE_DEVICES=1"), id="both-variables"),
        pytest.param(None, MIXED, ("CUDA_VISIBLE_DEVICES=0",), id="cuda-number-among-unequal-cards"),
        pytest.param((A,), MIXED, ("CUDA_VISIBLE_DEVICES=0", "CUDA_DEVICE_ORDER=PCI_BUS_ID"), id="cuda-order"),
        pytest.param((), ALIKE, ("CUDA_VISIBLE_DEVICES=",), id="cuda-variable-of-no-card"),
    ],
)
def test_names_of_an_operator(expected, gpus, wanted):
    assert cards_of(gpus, wanted) == expected


@pytest.mark.parametrize(
    ("expected", "gpus", "cuda", "container", "order"),
    [
        pytest.param((A, B, C), ALIKE, None, None, None, id="nothing-is-set"),
        pytest.param((A, C), ALIKE, "0,2", None, None, id="numbers-of-equal-cards"),
        pytest.param((A, C), ALIKE, " 0 , 2 ", None, None, id="spaces"),
        pytest.param((), ALIKE, "", None, None, id="empty"),
        pytest.param((), ALIKE, "-1", None, None, id="minus-one"),
        pytest.param((A,), ALIKE, "0,-1,1", None, None, id="ends-at-minus-one"),
        pytest.param((A,), ALIKE, "0,9,1", None, None, id="ends-at-the-first-invalid"),
        pytest.param((), ALIKE, "0,0", None, None, id="a-card-twice"),
        pytest.param((), ALIKE, "NoDevFiles", None, None, id="no-dev-files"),
        pytest.param((), ALIKE, "none", None, None, id="none"),
        pytest.param((B,), ALIKE, B, None, None, id="uuid"),
        pytest.param((A,), ALIKE, "GPU-8932f", None, None, id="short-uuid"),
        pytest.param((), ALIKE, "GPU-8932", None, None, id="ambiguous-uuid"),
        pytest.param((M0,), MIG, M0, None, None, id="mig-uuid"),
        pytest.param(None, MIXED, "0", None, None, id="numbers-of-unequal-cards"),
        pytest.param((A,), MIXED, "0", None, "PCI_BUS_ID", id="numbers-in-pci-order"),
        pytest.param((B,), MIXED, B, None, None, id="uuid-among-unequal-cards"),
        pytest.param((A, B, C), ALIKE, None, "all", None, id="container-all"),
        pytest.param((), ALIKE, None, "none", None, id="container-none"),
        pytest.param((), ALIKE, None, "void", None, id="container-void"),
        pytest.param((), ALIKE, None, "", None, id="container-empty"),
        pytest.param((C,), ALIKE, None, "2", None, id="container-number"),
        pytest.param((B,), MIXED, None, "1", None, id="container-number-of-unequal-cards"),
        pytest.param((C,), ALIKE, None, C, None, id="container-uuid"),
        pytest.param((M1,), MIG, None, "0:2", None, id="container-mig"),
        pytest.param((C,), ALIKE, "1", "1,2", None, id="cuda-counts-inside-the-container"),
        pytest.param((C,), ALIKE, "0", C, None, id="cuda-in-a-container-of-one-card"),
        pytest.param(None, ALIKE, None, "GPU-nosuch", None, id="container-of-another-node"),
        pytest.param((M0,), MIG, "0", "MIG-5c89", None, id="cuda-number-of-the-containers-mig-device"),
    ],
)
def test_environment_of_a_process(expected, gpus, cuda, container, order):
    given_names = {"CUDA_VISIBLE_DEVICES": cuda, "NVIDIA_VISIBLE_DEVICES": container, "CUDA_DEVICE_ORDER": order}
    environment = {name: value for name, value in given_names.items() if value is not None}
    assert cards_of_environment(gpus, environment) == expected


@given(st.text(alphabet="0123456789,-GPUMIGall: ²", max_size=30), st.sampled_from([ALIKE, MIXED, MIG, {}]))
def test_any_text_names_known_cards_or_none(text, gpus):
    for environment in ({"CUDA_VISIBLE_DEVICES": text}, {"NVIDIA_VISIBLE_DEVICES": text}):
        cards = cards_of_environment(gpus, environment)
        assert cards is None or (set(cards) <= set(gpus) and len(set(cards)) == len(cards))


SAMPLE = EndpointSample(cluster="c", address="a:1", node="n", sampled_at_ms=1, seq=1, status=Status.READY)


@pytest.mark.parametrize(
    ("expected", "status", "reason", "wanted"),
    [
        pytest.param(Status.DRAINING, Status.READY, "gpu_lost", (0,), id="lost"),
        pytest.param(Status.DRAINING, Status.IDLE, "reset_required", (0,), id="waits-for-a-reset"),
        pytest.param(Status.READY, Status.READY, "hung", (0,), id="unknown-is-no-loss"),
        pytest.param(Status.READY, Status.READY, "gpu_lost", (1,), id="another-card"),
        pytest.param(Status.READY, Status.READY, "gpu_lost", (), id="engine-names-no-card"),
        pytest.param(Status.LOADING, Status.LOADING, "gpu_lost", (0,), id="takes-no-traffic-anyway"),
    ],
)
def test_engine_on_a_broken_card_is_draining(expected, status, reason, wanted):
    gpus = {A: {"index": 0, "healthy": False, "reason": reason}, B: {"index": 1, "healthy": True}}
    sample = EndpointSample(cluster="c", address="a:1", node="n", sampled_at_ms=1, seq=1, status=status)
    assert with_gpus(sample, GpuReading(NvmlState.GPU_LOST, gpus), wanted).status is expected
