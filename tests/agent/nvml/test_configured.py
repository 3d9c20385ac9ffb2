"""Cards as `docs/nvml.md` says to name them: from what an operator writes to the memory of an engine."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from metrics_agent.gpu import GpuReading, NvmlState, memory_of
from metrics_agent.registration.flags import read_flags
from metrics_agent.targets import targets
from tidegate.cli.main import main
from tidegate.settings.config_file import parse

DOCS = (Path(__file__).parents[3] / "docs" / "nvml.md").read_text()
EXAMPLE = re.search(r"```yaml\n(endpoints: .*?)```", DOCS, re.DOTALL)[1].strip()
NODE = GpuReading(
    NvmlState.OK,
    {
        "GPU-a": {"index": 0, "name": "x", "vram_free_bytes": 1, "vram_total_bytes": 10},
        "GPU-b": {"index": 1, "name": "y", "vram_free_bytes": 2, "vram_total_bytes": 20},
        "GPU-c": {"index": 2, "name": "y"},
        "MIG-d": {
            "mig_parent": "GPU-c",
            "mig_parent_index": 2,
            "mig_slot": 2,
            "vram_free_bytes": 4,
            "vram_total_bytes": 40,
        },
    },
)


def file_of(endpoints):
    return f"clusters:\n  - name: c\n    models: [m]\n    {endpoints}\n"


def gpus(written):
    return f"endpoints: [{{address: 'a:1', gpus: {written}}}]"


@pytest.fixture
def check_config(tmp_path, monkeypatch):
    """`check_config(text)` is the exit code of `tidegate check-config` on a file with that text."""

    def check(text):
        (tmp_path / "tidegate.yaml").write_text(text)
        monkeypatch.setattr(sys, "argv", ["tidegate", "check-config", str(tmp_path / "tidegate.yaml")])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code

    return check


FORMS = [
    pytest.param((3, 30), EXAMPLE, id="the-example-of-the-docs"),
    pytest.param((4, 40), gpus("['2:2']"), id="mig-by-slot"),
    pytest.param((4, 40), gpus('["NVIDIA_VISIBLE_DEVICES=2:2"]'), id="mig-in-a-container"),
    pytest.param((2, 20), gpus('["CUDA_VISIBLE_DEVICES=GPU-b"]'), id="uuid-in-the-environment"),
    pytest.param((7, 70), gpus("[all]"), id="all"),
]


@pytest.mark.parametrize(("memory", "endpoints"), FORMS)
def test_file_is_accepted_and_names_the_cards(memory, endpoints, check_config):
    assert check_config(file_of(endpoints)) == 0
    [target] = targets(parse(file_of(endpoints), "tidegate.yaml").topology, "n", all_nodes=False)
    assert memory_of(NODE, target.gpus) == memory


@pytest.mark.parametrize(
    "wrong",
    ["['0:']", "[1:2]", "['a/b']", '["CUDA_VISIBLE_DEVICE=0"]', '["PATH=/bin"]', '["CUDA_VISIBLE_DEVICES=0\\n1"]'],
)
def test_what_names_no_card_is_refused(wrong, check_config):
    assert check_config(file_of(gpus(wrong))) == 2


@pytest.mark.parametrize(
    ("memory", "option"),
    [
        ((3, 30), "gpus=CUDA_VISIBLE_DEVICES=0,1;CUDA_DEVICE_ORDER=PCI_BUS_ID"),
        ((6, 60), "gpus=2:2,1"),
        ((1, 10), "gpus=NVIDIA_VISIBLE_DEVICES=0,precision=int4"),
    ],
)
def test_flag_names_the_cards(memory, option):
    [target] = read_flags([f"c=a:1,{option}"])
    assert memory_of(NODE, target.gpus) == memory
