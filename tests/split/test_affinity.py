"""A weighted canary and affinity work together: the replica is picked inside the version of the user."""

from __future__ import annotations

import json
from collections import defaultdict

from tests.ext_proc.parts import Picker
from tidegate.domain.routing import Split
from tidegate.domain.split import layout, point, slot_of
from tidegate.domain.topology import Cluster, Endpoint, Topology

VERSIONS = {"stable": ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"], "canary": ["10.0.1.1:80", "10.0.1.2:80"]}
PARTS = (("stable", 700), ("canary", 300))
TOPOLOGY = Topology(
    clusters=tuple(
        Cluster(name, ("m",) if name == "stable" else (), endpoints=tuple(map(Endpoint, addresses)))
        for name, addresses in VERSIONS.items()
    ),
    splits=(Split("m", PARTS),),
)


def test_the_turns_of_a_conversation_stay_on_the_replica_of_their_version_that_has_their_prefix() -> None:
    picker = Picker(TOPOLOGY)
    met: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for turn in range(4):
        for number in range(24):
            user = f"user-{number}"
            picker.now_ms += 40
            for version, addresses in VERSIONS.items():
                for address in addresses:
                    picker.sample(address, cluster=version, kv_used_ratio=0.1, kv_capacity_tokens=100_000)
            said = [{"role": "user", "content": f"{user} {part} " + "word " * 600} for part in range(turn + 1)]
            answer = picker.answer(json.dumps({"model": "m", "user": user, "max_tokens": 4, "messages": said}).encode())
            met[user].append((answer.cluster, answer.destinations[0]))
    for user, places in met.items():
        assert {version for version, _ in places} == {layout(PARTS)[slot_of(point(user, "m"))]}
        assert {address for _, address in places} <= set(VERSIONS[places[0][0]])
    stayed = sum(len(set(places)) == 1 for places in met.values())
    assert stayed >= 20, f"{stayed} of 24 conversations stayed on their replica"
    assert {version for places in met.values() for version, _ in places} == set(VERSIONS)
