"""100,000 users: how many meet a version, who moves, and that every process agrees."""

from __future__ import annotations

import subprocess
import sys
from math import sqrt

import pytest

from tidegate.domain.split import ModelSplit, layout, point, slot_of

USERS = [f"user-{number}" for number in range(100_000)]
SALT = "qwen2.5-72b"
SLOTS = [slot_of(point(user, SALT)) for user in USERS]
PROGRAM = """
import hashlib, sys
from tidegate.domain.split import ModelSplit, point
split = ModelSplit("m", (("stable", 850), ("canary", 150)), "{salt}")
sides = (split.choose(point(f"user-{{n}}", "{salt}"), lambda _: True).version for n in range(100_000))
print(hashlib.sha256(",".join(sides).encode()).hexdigest())
"""


def canaries(permille: int) -> set[int]:
    """The users, by number, that meet the canary."""
    held = layout((("stable", 1000 - permille), ("canary", permille)))
    return {number for number, slot in enumerate(SLOTS) if held[slot] == "canary"}


@pytest.mark.parametrize("permille", [1, 10, 150, 500])
def test_shares_are_hit_within_the_binomial_error(permille: int) -> None:
    share, seen = permille / 1000, len(canaries(permille))
    error = sqrt(len(USERS) * share * (1 - share))
    assert abs(seen - len(USERS) * share) < 4 * error, (
        f"{seen} users where {len(USERS) * share:.0f} ± {error:.0f} belong"
    )


def test_from_1_to_5_percent_the_new_4_percent_alone_move() -> None:
    before, after = canaries(10), canaries(50)
    assert before < after
    added = len(after - before)
    assert abs(added - 4000) < 4 * sqrt(100_000 * 0.04 * 0.96)


def test_0_is_nobody_and_1000_is_everybody() -> None:
    assert (len(canaries(0)), len(canaries(1000))) == (0, len(USERS))


def test_four_processes_send_every_user_to_the_same_side() -> None:
    """Whatever PYTHONHASHSEED is; the same holds for a process before and after its restart."""
    program = PROGRAM.format(salt=SALT)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."}
        )
        for seed in ("0", "1", "2", "random")
    ]
    told = {process.communicate(timeout=240)[0] for process in started}
    assert len(told) == 1
    assert len(told.pop().strip()) == 64


def test_users_of_a_version_that_serves_nobody_spread_by_the_shares_of_the_others() -> None:
    split = ModelSplit("m", (("a", 600), ("b", 300), ("c", 100)), SALT)
    met = [split.choose(point(user, SALT), lambda name: name != "a") for user in USERS]
    others = [one.version for one in met if one.instead_of == "a"]
    assert len(others) == sum(layout(split.parts)[slot] == "a" for slot in SLOTS)
    share = others.count("b") / len(others)
    assert abs(share - 0.75) < 4 * sqrt(0.75 * 0.25 / len(others))
    assert "a" not in others
