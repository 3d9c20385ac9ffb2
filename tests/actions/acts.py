"""Acts and deeds that tests of actions use."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tidegate.domain.actions.act import Act, Deed, Kind

NOW_MS = 1_700_000_000_000


def act(kind: str = "retries", *, ident: str = "a1", since_ms: int = NOW_MS, **deed: Any) -> Act:
    """An act of the rule `rule`, with the fields of `deed`."""
    made = Deed(kind=Kind(kind), **({"cluster": "phi-3", "to": 0} if kind == "retries" and not deed else deed))
    return Act(id=ident, deed=made, rule="rule", cause="alert Trouble", since_ms=since_ms)


clusters = st.sampled_from(["phi-3", "llama-3"])
replicas = st.sampled_from(["10.0.0.5:8000", "10.0.0.6:8000"])
deeds = st.one_of(
    st.builds(Deed, kind=st.just(Kind.RETRIES), cluster=clusters, to=st.integers(0, 5)),
    st.builds(Deed, kind=st.just(Kind.REDUCE), cluster=clusters, replica=replicas, ratio=st.floats(0, 1)),
    st.builds(Deed, kind=st.just(Kind.SCALE), cluster=clusters, to=st.integers(0, 9)),
    st.builds(Deed, kind=st.just(Kind.SCALE), cluster=clusters, by=st.integers(-3, 3)),
    st.builds(Deed, kind=st.just(Kind.FREEZE), what=st.sampled_from([("weights",), ("rollouts",)])),
    st.builds(Deed, kind=st.just(Kind.HOLD), cluster=clusters, less_urgent_than=st.integers(-5, 5)),
    st.builds(Deed, kind=st.just(Kind.HOLD), classes=st.sampled_from([("batch",), ("batch", "chat")])),
    st.builds(
        Deed,
        kind=st.just(Kind.SPLIT),
        model=st.just("phi"),
        parts=st.sampled_from([{"phi-3": 1000, "llama-3": 0}, {"phi-3": 500, "llama-3": 500}]),
    ),
)
acts = st.builds(
    Act,
    id=st.text("0123456789abcdef", min_size=10, max_size=10),
    deed=deeds,
    rule=st.just("rule"),
    cause=st.just("alert Trouble"),
    since_ms=st.integers(NOW_MS, NOW_MS + 5),
    dry_run=st.booleans(),
)
