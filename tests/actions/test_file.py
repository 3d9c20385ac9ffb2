"""`actions` of the file: what it means, every fault with its line, and the example of the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.domain.actions.act import Deed, Kind
from tidegate.domain.errors import ConfigError
from tidegate.settings.config_file import parse

HEAD = """clusters: [{name: phi-3, models: [phi]}, {name: next, models: []}]
classes: [{name: batch}]
actions:
  rules:
"""


def faults(rule: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(f"{HEAD}    - {{name: a, {rule}}}\n", "f")
    return str(caught.value).splitlines()


def test_each_key_becomes_a_deed() -> None:
    file = parse(
        HEAD
        + """    - name: all
      alert: [A, B]
      labels: {severity: [critical, /page-.*/]}
      lasts: 10m
      at_most: 2h
      dry_run: true
      scale: {cluster: $cluster, by: -1}
      drain: {cluster: phi-3, replica: $replica}
      reduce: {cluster: phi-3, replica: "10.0.0.5:8000", ratio: 0.5}
      retries: {cluster: phi-3}
      hold: {model: phi, classes: batch, less_urgent_than: normal}
      freeze: weights
      split: {model: phi, parts: {phi-3: 1000, next: 0}}
""",
        "f",
    )
    [rule] = file.actions.rules
    assert rule.deeds == (
        Deed(kind=Kind.SCALE, cluster="$cluster", by=-1),
        Deed(kind=Kind.REDUCE, cluster="phi-3", replica="$replica", ratio=0.0),
        Deed(kind=Kind.REDUCE, cluster="phi-3", replica="10.0.0.5:8000", ratio=0.5),
        Deed(kind=Kind.RETRIES, cluster="phi-3", to=0),
        Deed(kind=Kind.HOLD, model="phi", classes=("batch",), less_urgent_than=0),
        Deed(kind=Kind.FREEZE, what=("weights",)),
        Deed(kind=Kind.SPLIT, model="phi", parts={"phi-3": 1000, "next": 0}),
    )
    assert (rule.alerts, rule.for_ms, rule.at_most_ms, rule.dry_run) == (("A", "B"), 600_000, 7_200_000, True)
    [(label, matcher)] = rule.labels
    assert [matcher.matches(one) for one in ("critical", "page-eu", "page", None)] == [True, True, False, False]
    assert label == "severity"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("alert: X", "does nothing; give one or more of scale, drain, reduce, retries, hold, freeze, split"),
        ("freeze: weights", "needs one of alert and annotation"),
        ("alert: X, annotation: y, freeze: weights", "needs one of alert and annotation"),
        ("alert: X, freeze: weight", "weight is none of weights, rollouts"),
        ("alert: X, retries: {cluster: phi3}", "there is no cluster 'phi3'; did you mean 'phi-3'?"),
        ("alert: X, retries: {cluster: $}", "'' is no label"),
        ("alert: X, scale: {cluster: phi-3}", "needs one of to and by"),
        ("alert: X, scale: {cluster: phi-3, to: 1, by: 1}", "needs one of to and by"),
        ("alert: X, drain: {cluster: phi-3, replica: foo}", "'foo' is not host:port"),
        ("alert: X, reduce: {cluster: phi-3, replica: $r, ratio: 1}", "1 is too large"),
        ("alert: X, hold: {cluster: phi-3}", "holds nothing; give classes or less_urgent_than"),
        ("alert: X, hold: {classes: [bath]}", "there is no class 'bath'; did you mean 'batch'?"),
        ("alert: X, hold: {model: fi, classes: batch}", "there is no model 'fi'"),
        ("alert: X, split: {model: phi, parts: {phi-3: 999}}", "its parts sum to 999; they have to sum to 1000"),
        ("alert: X, split: {model: phi, parts: {phi3: 1000}}", "there is no cluster 'phi3'"),
        ("alert: X, lasts: 1x, freeze: weights", "'1x' is no duration"),
        ("alert: X, lasts: 25h, freeze: weights", "lasts 25h, which is more than at_most, 24h"),
        ("alert: X, labels: {a-b: c}, freeze: weights", "'a-b' is no label"),
        ("alert: X, labels: {a: /(/}, freeze: weights", "'/(/' is no regular expression"),
        ("alert: X, freezes: weights", "unknown key; did you mean 'freeze'?"),
    ],
)
def test_each_fault_is_told_with_its_line(rule: str, said: str) -> None:
    found = faults(rule)
    assert any(said in line for line in found), found
    assert all(line.startswith("f:5: ") for line in found)


def test_two_rules_cannot_have_one_name() -> None:
    rule = "    - {name: a, alert: X, freeze: weights}\n"
    with pytest.raises(
        ConfigError, match=re.escape("f:6: actions.rules[1].name: 'a' is the name of another rule (line 5)")
    ):
        parse(HEAD + rule * 2, "f")


def test_the_example_of_the_docs_loads() -> None:
    page = (Path(__file__).parents[2] / "docs" / "actions.md").read_text()
    example = re.findall(r"```yaml\n(clusters:.*?)```", page, re.DOTALL)[0]
    assert [rule.name for rule in parse(example, "f").actions.rules] == [
        "cut-retries",
        "shed-low",
        "slow-replica",
        "release",
    ]
