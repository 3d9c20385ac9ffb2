"""Engines that the file does not name: as flags, and as files that come, change, go, and are wrong."""

from __future__ import annotations

import os
import time

import pytest

from metrics_agent.registration.flags import read_flags
from metrics_agent.registration.folder import EngineFolder
from metrics_agent.targets import Source, Target
from tidegate.domain.errors import ConfigError
from tidegate.domain.topology import Kind, Precision

PLAIN = Target("phi-3", "10.0.0.5:8000", source=Source.FLAG)
BY_ENVIRONMENT = ("CUDA_VISIBLE_DEVICES=0,1", "CUDA_DEVICE_ORDER=PCI_BUS_ID")
TWO_GPUS = Target("phi-3", "10.0.0.5:8000", gpus=(0, 1), source=Source.FLAG)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param(PLAIN, "phi-3=10.0.0.5:8000", id="address-alone"),
        pytest.param(PLAIN, " phi-3=http://10.0.0.5:8000/ ", id="url"),
        pytest.param(Target("c", "[::1]:80", source=Source.FLAG), "c=[::1]:80", id="ipv6"),
        pytest.param(TWO_GPUS, "phi-3=10.0.0.5:8000,gpus=0;1", id="gpus-semicolon"),
        pytest.param(TWO_GPUS, "phi-3=10.0.0.5:8000,gpus=0,1", id="gpus-comma"),
        pytest.param(TWO_GPUS, "phi-3=10.0.0.5:8000,gpu=0,gpu=1", id="gpus-repeated"),
        pytest.param(
            Target("c", "a:1", ("0:1", "1:2", 3), source=Source.FLAG), "c=a:1,gpus=0:1,1:2;3", id="mig-by-slot"
        ),
        pytest.param(
            Target("c", "a:1", gpus=BY_ENVIRONMENT, models=("m", "n"), source=Source.FLAG),
            "c=a:1,gpus=CUDA_VISIBLE_DEVICES=0,1;CUDA_DEVICE_ORDER=PCI_BUS_ID,model=m,n",
            id="environment-semicolon",
        ),
        pytest.param(
            Target("c", "a:1", gpus=BY_ENVIRONMENT, source=Source.FLAG),
            "c=a:1,gpu=CUDA_VISIBLE_DEVICES=0,1,CUDA_DEVICE_ORDER=PCI_BUS_ID",
            id="environment-comma",
        ),
        pytest.param(
            Target("c", "a:1", gpus=BY_ENVIRONMENT, kind=Kind.LLM, source=Source.FLAG),
            "c=a:1,gpu=CUDA_VISIBLE_DEVICES=0,1,kind=llm,gpu=CUDA_DEVICE_ORDER=PCI_BUS_ID",
            id="environment-repeated",
        ),
        pytest.param(
            Target(
                "phi-3",
                "gpu-1:8000",
                ("GPU-8f3a",),
                ("phi-3", "microsoft/Phi-3"),
                Precision.INT4,
                Kind.DIFFUSION,
                Source.FLAG,
            ),
            "phi-3=gpu-1:8000,model=phi-3,model=microsoft/Phi-3,precision=int4,kind=diffusion,gpus=GPU-8f3a",
            id="everything",
        ),
    ],
)
def test_flag_is_read(expected, text):
    assert read_flags([text]) == [expected]


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param("write CLUSTER=HOST:PORT", "10.0.0.5:8000", id="no-cluster"),
        pytest.param("write CLUSTER=HOST:PORT", "", id="empty"),
        pytest.param("is not host:port", "phi-3=10.0.0.5", id="no-port"),
        pytest.param("plain http", "phi-3=https://10.0.0.5:8000", id="https"),
        pytest.param("did you mean 'precision'", "phi-3=a:1,precison=int4", id="unknown-option"),
        pytest.param("int3 is none of", "phi-3=a:1,precision=int3", id="unknown-precision"),
        pytest.param("neither an NVML index", "phi-3=a:1,gpus=a/b", id="gpu"),
        pytest.param("neither an NVML index", "phi-3=a:1,gpus=CUDA_VISIBLE_DEVICE=0", id="no-such-variable"),
        pytest.param("no name", "phi 3=a:1", id="cluster-name"),
    ],
)
def test_flag_that_is_wrong_says_what_to_write(expected, text):
    with pytest.raises(ConfigError, match=expected):
        read_flags([text])


def test_every_wrong_flag_is_named():
    with pytest.raises(ConfigError) as told:
        read_flags(["one", "c=a:1", "two"])
    assert len(told.value.faults) == 2


GOOD = "cluster: phi-3\naddress: 10.0.0.5:8000\nmodels: [phi-3]\nprecision: fp8\ngpus: [0]\n"
ONE = Target("phi-3", "10.0.0.5:8000", (0,), ("phi-3",), Precision.FP8, None, Source.FOLDER)


class Folder:
    """A folder, and a clock that says how long ago its files were written."""

    def __init__(self, path):
        self.path, self.now = path, time.time()
        self.folder = EngineFolder(path, "gpu-1", lambda: self.now)

    def write(self, name, text):
        path = self.path / name
        path.write_text(text)
        self.now += 0.001
        os.utime(path, (self.now, self.now))

    def look(self, *, after=10.0):
        self.now += after
        return self.folder.look()


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_files_of_every_kind_are_read(folder):
    folder.write("a.yaml", GOOD)
    folder.write("b.yml", "{cluster: c, address: 'b:1'}")
    folder.write("c.json", '{"cluster": "c", "address": "c:1", "kind": "diffusion"}')
    assert folder.look().targets == (
        ONE,
        Target("c", "b:1", source=Source.FOLDER),
        Target("c", "c:1", kind=Kind.DIFFUSION, source=Source.FOLDER),
    )


@pytest.mark.parametrize(
    ("expected", "written"),
    [
        (BY_ENVIRONMENT, '["CUDA_VISIBLE_DEVICES=0,1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"]'),
        (("NVIDIA_VISIBLE_DEVICES=GPU-8f3a,1:0",), "['NVIDIA_VISIBLE_DEVICES=GPU-8f3a,1:0']"),
        (("0:2", "1:2", "all"), "[0:2, '1:2', all]"),
    ],
)
def test_file_names_cards_in_every_form(folder, expected, written):
    folder.write("a.yaml", f"{{cluster: c, address: 'a:1', gpus: {written}}}")
    said = folder.look()
    assert ([target.gpus for target in said.targets], dict(said.faults)) == ([expected], {})


def test_other_files_are_not_looked_at(folder):
    (folder.path / "sub.yaml").mkdir()
    for name in (".hidden.yaml", "notes.txt", "a.yaml.tmp", "a.yaml~"):
        folder.write(name, "nonsense: [")
    said = folder.look()
    assert (said.targets, dict(said.faults)) == ((), {})


def test_changed_file_changes_its_engine(folder):
    folder.write("a.yaml", GOOD)
    folder.look()
    folder.write("a.yaml", GOOD.replace("fp8", "int4"))
    [target] = folder.look().targets
    assert target.precision is Precision.INT4


def test_removed_file_takes_its_engine_along_at_the_second_look(folder):
    folder.write("a.yaml", GOOD)
    folder.look()
    (folder.path / "a.yaml").unlink()
    assert folder.look().targets == (ONE,)
    assert folder.look().targets == ()


def test_file_that_an_editor_replaces_keeps_its_engine(folder):
    folder.write("a.yaml", GOOD)
    folder.look()
    (folder.path / "a.yaml").unlink()
    folder.look()
    folder.write("a.yaml", GOOD)
    assert folder.look().targets == (ONE,)


def test_half_written_file_is_ignored_until_it_is_whole(folder):
    folder.write("a.yaml", GOOD[:40])
    said = folder.look(after=0.0)
    assert (said.targets, dict(said.faults)) == ((), {})
    folder.write("a.yaml", GOOD)
    assert folder.look(after=0.0).targets == ()
    assert folder.look(after=0.0).targets == (ONE,)


def test_file_dated_in_the_future_is_read_at_the_second_look(folder):
    folder.write("a.yaml", GOOD)
    os.utime(folder.path / "a.yaml", (folder.now + 3600, folder.now + 3600))
    folder.look()
    assert folder.look().targets == (ONE,)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param("line 2: not YAML", "cluster: c\naddress: [", id="syntax"),
        pytest.param("line 2: adress: unknown key; did you mean 'address'?", "cluster: c\nadress: a:1", id="typo"),
        pytest.param("is missing", "cluster: c", id="missing"),
        pytest.param("it is empty", " \n", id="empty"),
        pytest.param("a mapping belongs", "[1, 2]", id="list"),
        pytest.param("larger than", "# " + "x" * 70_000, id="huge"),
    ],
)
def test_bad_file_says_its_fault_and_leaves_others_alone(folder, expected, text):
    folder.write("a.yaml", GOOD)
    folder.write("bad.yaml", text)
    said = folder.look()
    assert said.targets == (ONE,)
    assert expected in said.faults["bad.yaml"]


def test_file_of_another_node_is_none_of_ours(folder):
    folder.write("a.yaml", GOOD + "node: gpu-1\n")
    folder.write("b.yaml", "{cluster: c, address: 'b:1', node: gpu-2}")
    said = folder.look()
    assert (said.targets, dict(said.faults)) == ((ONE,), {})


def test_file_that_is_not_text_is_a_fault(folder):
    (folder.path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in folder.look().faults["a.yaml"]


def test_good_file_that_turns_bad_keeps_what_it_said(folder):
    folder.write("a.yaml", GOOD)
    folder.look()
    folder.write("a.yaml", "cluster: [")
    said = folder.look()
    assert said.targets == (ONE,)
    assert "a.yaml" in said.faults
    folder.write("a.yaml", GOOD)
    assert not folder.look().faults


def test_second_file_for_one_engine_is_a_fault(folder):
    folder.write("a.yaml", GOOD)
    folder.write("b.yaml", GOOD)
    said = folder.look()
    assert said.targets == (ONE,)
    assert "registered by a.yaml already" in said.faults["b.yaml"]


def test_folder_that_is_not_there_is_a_fault_and_changes_nothing(folder):
    folder.write("a.yaml", GOOD)
    folder.look()
    away = folder.path.with_name("away")
    folder.path.rename(away)
    said = folder.look()
    assert said.targets == (ONE,)
    assert "cannot be listed" in said.faults[""]
    away.rename(folder.path)
    assert not folder.look().faults
