"""docs/tls.md: its commands make certificates that are taken, and it lists what there is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tidegate.grpc_tls_files import TlsFiles, TlsMetrics
from tidegate.settings.services import XdsSettings
from xds_server.bootstrap import _parser

PAGE = (Path(__file__).parents[2] / "docs" / "tls.md").read_text()


def test_the_example_makes_an_authority_and_pairs_that_fit(tmp_path: Path) -> None:
    [script] = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True, capture_output=True)
    ca = tmp_path / "ca.crt"
    for name in ("tidegate.internal", "envoy", "xds"):
        read = TlsFiles("--tls-", tmp_path / f"{name}.crt", tmp_path / f"{name}.key", ca).read()
        assert read.pair is not None
        verify = ["openssl", "verify", "-CAfile", str(ca), "-verify_hostname", name, str(tmp_path / f"{name}.crt")]
        subprocess.run(verify, check=True, capture_output=True)


def test_every_flag_of_the_page_exists() -> None:
    written = set(re.findall(r"--[a-z][a-z-]+[a-z]", PAGE))
    flags = {"--" + name.replace("_", "-") for name in XdsSettings.__dataclass_fields__}
    known = flags | {option for action in _parser()._actions for option in action.option_strings} | {"--engine"}
    begun = {"--tls", "--ext-proc-tls"}  # as in `--tls-…`
    assert written - known - begun == set()


def test_each_metric_is_listed_and_no_other() -> None:
    registry = CollectorRegistry()
    TlsMetrics(registry)
    there = {family.name + ("_total" if family.type == "counter" else "") for family in registry.collect()}
    assert set(re.findall(r"^\| `(tidegate_tls_[a-z_]+)`", PAGE, re.MULTILINE)) == there


@pytest.mark.parametrize("name", ["server", "ext_proc"])
def test_each_pair_is_named(name: str) -> None:
    assert f"`{name}`" in PAGE
