"""`tidegate actions` and what `status` says of acts."""

from __future__ import annotations

import json

from tests.actions.acts import NOW_MS, act
from tests.cli.conftest import Desk
from tidegate.domain.actions.notice import Notice
from tidegate.domain.actions.rules import Order
from tidegate.store.acts import ALERTS, encode_acts, encode_notice

ORDER = Order(rule="cut", deed=act(cluster="phi-3", to=0).deed, for_ms=10**12, at_most_ms=10**12)
NOTICE = Notice(key="alert:1", cause="alert Failing", version_ms=1, first_ms=NOW_MS, last_ms=NOW_MS, orders=(ORDER,))


def begin(desk: Desk) -> str:
    [made] = NOTICE.acts(NOW_MS)
    desk.redis("HSET", "tidegate:acts", ALERTS, encode_acts([made]).decode())
    desk.redis("HSET", "tidegate:notices", NOTICE.key, encode_notice(NOTICE).decode())
    return made.id


def test_an_act_is_listed_shown_and_in_status(desk: Desk) -> None:
    assert desk.run("actions", "list").out == "no act is in force\n"
    ident = begin(desk)
    [told] = json.loads(desk.run("actions", "list", "--json").out)
    assert told == {
        "id": ident, "kind": "retries", "target": "phi-3", "value": "to 0", "rule": "cut", "alert": "alert Failing",
        "since_ms": NOW_MS, "until_ms": NOW_MS + 10**12, "dry_run": False,
    }  # fmt: skip
    assert json.loads(desk.run("status", "--json").out)["actions"] == [told]
    assert "action: retries phi-3 to 0 until" in desk.run("status").out
    assert ident in desk.run("actions", "list").out
    assert json.loads(desk.run("actions", "show", ident).out)["notice"]["key"] == "alert:1"


def test_cancelling_leaves_a_word_for_the_leader_and_a_dry_run_does_not(desk: Desk) -> None:
    ident = begin(desk)
    assert desk.run("actions", "cancel", ident, "--dry-run").out.startswith("would cancel retries phi-3")
    assert desk.redis("LLEN", "tidegate:inbox") == "0"
    assert desk.run("actions", "cancel", ident).code == 0
    said = json.loads(desk.redis("LRANGE", "tidegate:inbox", "0", "-1"))
    assert list(said["cancelled"]) == [ident]
    assert said["cancelled"][ident].startswith("cli:")


def test_what_is_not_there_and_what_is_built_in_cannot_be_cancelled(desk: Desk) -> None:
    said = desk.run("actions", "cancel", "nothing")
    assert (said.code, said.err.strip()) == (2, "no act nothing is in force; `tidegate actions list` names them")
    desk.redis("HSET", "tidegate:acts", "self-healing", encode_acts([act(ident="b1")]).decode())
    assert "follows from no alert" in desk.run("actions", "cancel", "b1").err
