"""Keys for nobody are told from keys for somebody."""

from __future__ import annotations

import pytest

from tidegate.domain.strays import MOST_SAID, strays


@pytest.mark.parametrize(
    ("said", "key"),
    [
        (None, "weight:phi-3"),
        (None, "split:gpt"),
        (None, "rollout:gpt"),
        ("no model of the file is called gtp; did you mean gpt?", "rollout:gtp"),
        ("no cluster of the file is called phi3; did you mean phi-3?", "drain:phi3"),
        ("no cluster of the file is called x:y", "tune:x:y"),
        ("no model of the file is called phi-3", "split:phi-3"),
        ("no cluster of the file is called gpt", "weight:gpt"),
    ],
)
def test_a_key_is_for_a_cluster_and_a_split_for_a_model(said: str | None, key: str) -> None:
    assert strays([key], ["phi-3"], ["gpt"]).get(key) == said


def test_of_many_strays_some_are_said() -> None:
    assert len(strays((f"weight:{n}" for n in range(1000)), [], [])) == MOST_SAID
