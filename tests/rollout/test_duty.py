"""A rollout from its first step to its end, whatever happens to the controller, to Redis and to figures."""

from __future__ import annotations

import pytest

from tests.rollout.desk import Desk
from tidegate.domain.actions.act import Act, Deed, Kind
from tidegate.domain.rollout.course import Phase
from tidegate.store.rollouts import rollout_key

FIRST, SECOND, THIRD = "step 1 of 3 (5 %)", "step 2 of 3 (50 %)", "step 3 of 3 (100 %)"
AT_5, AT_50, AT_100 = "stable=950 canary=50", "stable=500 canary=500", "stable=0 canary=1000"
BACK = "stable=1000 canary=0"


@pytest.fixture
async def desk() -> Desk:
    one = Desk()
    await one.look()
    return one


async def test_a_canary_as_good_as_stable_goes_through_all_steps(desk: Desk) -> None:
    await desk.start()
    assert await desk.split() == AT_5
    await desk.serve_well()
    await desk.hold()
    assert await desk.split() == AT_50
    await desk.serve_well()
    await desk.hold()
    assert await desk.split() == AT_100
    await desk.serve("canary", 1000)
    await desk.hold()
    assert ((await desk.state()).phase, await desk.split()) == (Phase.DONE, AT_100)
    assert await desk.told() == [("", FIRST), (FIRST, SECOND), (SECOND, THIRD), (THIRD, "done")]
    assert await desk.told("split:m") == [(BACK, AT_5), (AT_5, AT_50), (AT_50, AT_100)]


async def test_no_step_is_taken_before_its_hold_is_over(desk: Desk) -> None:
    await desk.start()
    await desk.serve_well()
    await desk.look(10)
    assert (await desk.split(), await desk.why()) == (AT_5, "the hold is not over")


async def test_a_canary_with_faults_goes_back_at_the_next_look(desk: Desk) -> None:
    await desk.start()
    await desk.serve("stable", 950)
    await desk.serve("canary", 50, faults=10)
    state = await desk.state()
    assert (state.phase, await desk.split()) == (Phase.ROLLED_BACK, BACK)
    assert state.why == "20.00% (10 of 50) of the canary's requests were faults, 0.00% (0 of 950) of stable's"
    assert (await desk.told())[-1] == (FIRST, "rolled back")
    assert (await desk.told("split:m"))[-1] == (AT_5, BACK)


async def test_a_slow_canary_goes_back(desk: Desk) -> None:
    await desk.start()
    await desk.serve("stable", 950, ms=100)
    await desk.serve("canary", 50, ms=200)
    assert (await desk.state()).phase is Phase.ROLLED_BACK
    assert await desk.why() == "its p95 was 198 ms, stable's 100 ms"


async def test_a_canary_that_turns_bad_late_is_judged_by_its_last_minute(desk: Desk) -> None:
    await desk.start(hold="10m")
    for _ in range(40):
        await desk.serve("canary", 500)
        await desk.serve("stable", 9_500)
    await desk.look(200)
    await desk.serve("stable", 9_500)
    await desk.serve("canary", 100, faults=30)
    assert (await desk.state()).phase is Phase.ROLLED_BACK
    assert (await desk.why()).startswith("in the last minute 30.00% (30 of 100) of the canary's requests were faults")


async def test_twelve_requests_decide_nothing_and_it_says_so(desk: Desk) -> None:
    await desk.start()
    await desk.serve("stable", 1000)
    await desk.serve("canary", 12, faults=12)
    await desk.hold()
    await desk.hold()
    assert await desk.split() == AT_5
    why = "the hold is over, and nothing is decided: the canary had 12 of the 50 requests that it takes"
    assert await desk.why() == why
    await desk.serve("canary", 38, faults=38)
    assert (await desk.state()).phase is Phase.ROLLED_BACK


@pytest.mark.parametrize("others", [{"client_error": 3000}, {"back_pressure": 3000}, {"left": 3000}])
async def test_what_is_nobodys_fault_rolls_nothing_back(desk: Desk, others: dict[str, int]) -> None:
    await desk.start()
    await desk.serve("stable", 1000)
    await desk.serve("canary", 100, **others)
    await desk.hold()
    assert await desk.split() == AT_50


async def test_a_canary_that_refuses_everything_is_not_promoted(desk: Desk) -> None:
    await desk.start()
    await desk.serve("stable", 1000)
    await desk.serve("canary", 0, client_error=3000)
    await desk.hold()
    assert await desk.split() == AT_5


async def test_figures_of_before_the_step_count_for_nothing(desk: Desk) -> None:
    await desk.serve("canary", 500, faults=500)
    await desk.start()
    await desk.serve_well()
    await desk.hold()
    assert await desk.split() == AT_50


async def test_an_instance_that_restarts_takes_nothing_along_and_adds_from_zero(desk: Desk) -> None:
    await desk.start()
    await desk.serve("stable", 950)
    await desk.serve("canary", 30, faults=6)
    desk.run, desk.sums = "two", {name: type(one)() for name, one in desk.sums.items()}
    await desk.look()
    await desk.serve("canary", 20, faults=4)
    assert (await desk.state()).phase is Phase.ROLLED_BACK
    assert "(10 of 50)" in await desk.why()


async def test_without_figures_nothing_is_decided_and_the_time_does_not_count(desk: Desk) -> None:
    await desk.start()
    await desk.serve_well()
    desk.tells = False
    await desk.hold()
    await desk.hold()
    assert await desk.split() == AT_5
    assert (await desk.why()).startswith("nobody tells figures")
    desk.tells = True
    await desk.look(4)
    assert (await desk.split(), await desk.why()) == (AT_5, "the hold is not over")
    await desk.hold()
    assert await desk.split() == AT_50


async def test_a_successor_goes_on_and_the_hold_does_not_begin_anew(desk: Desk) -> None:
    await desk.start()
    await desk.serve_well()
    await desk.look(12)
    began = (await desk.state()).since_ms
    await desk.controller.resign()
    desk.start_controller()
    await desk.look(7)
    state = await desk.state()
    assert (state.step, await desk.split()) == (1, AT_50)
    assert state.since_ms - began <= 11_000


async def test_evidence_of_before_a_failover_counts(desk: Desk) -> None:
    await desk.start()
    await desk.serve("stable", 950)
    await desk.serve("canary", 30, faults=6)
    await desk.controller.resign()
    desk.start_controller()
    await desk.serve("canary", 20, faults=4)
    assert (await desk.state()).phase is Phase.ROLLED_BACK


async def test_who_does_not_lead_any_more_writes_nothing(desk: Desk) -> None:
    await desk.start()
    lease = desk.controller.lease
    assert lease is not None
    await desk.controller.resign()
    assert await desk.store.take_lead("another", ttl_ms=60_000) is not None
    before = await desk.fields()
    desk.sums["canary"] = desk.sums["canary"].plus(desk.sums["canary"])
    with pytest.raises(Exception, match="another controller leads"):
        await desk.store.change_fields((), (), lease=lease)
    await desk.serve("canary", 100, faults=100)
    assert await desk.fields() == before


async def test_an_emptied_redis_gets_its_rollout_back_where_it_was(desk: Desk) -> None:
    await desk.start()
    await desk.serve_well()
    await desk.hold()
    assert await desk.split() == AT_50
    desk.empty()
    await desk.look(4)
    assert ((await desk.state()).phase, (await desk.state()).step, await desk.split()) == (Phase.RUNNING, 1, AT_50)
    await desk.serve("stable", 500)
    await desk.serve("canary", 500, faults=100)
    assert (await desk.state()).phase is Phase.ROLLED_BACK


async def test_a_rollout_that_is_deleted_is_over_and_its_split_stays(desk: Desk) -> None:
    await desk.start()
    for name in await desk.fields():
        await desk.store.clear_field(rollout_key("m"), name)
    await desk.look(2)
    assert (await desk.split(), (await desk.store.rollouts(["m"]))[1]) == (AT_5, {"m": "0"})
    assert await desk.fields() == {}


async def test_what_is_written_while_somebody_deletes_it_goes_too(desk: Desk) -> None:
    await desk.start()
    state = (await desk.fields())["state"]
    for name in await desk.fields():
        await desk.store.clear_field(rollout_key("m"), name)
    await desk.store.set_field(rollout_key("m"), "state", state)
    await desk.look(2)
    assert (await desk.fields(), await desk.split()) == ({}, AT_5)


async def test_a_split_that_is_moved_by_hand_pauses_it(desk: Desk) -> None:
    await desk.start()
    await desk.types(stable=700, canary=300)
    assert ((await desk.state()).phase, await desk.split()) == (Phase.PAUSED, "stable=700 canary=300")
    assert "somebody else changed the split to stable=700 canary=300" in await desk.why()
    await desk.serve("stable", 950)
    await desk.serve("canary", 100, faults=100)
    assert await desk.split() == "stable=700 canary=300"
    await desk.order("resume")
    assert ((await desk.state()).phase, await desk.split()) == (Phase.RUNNING, AT_5)
    assert (await desk.told())[-2:] == [(FIRST, "paused"), (FIRST, FIRST)]


async def test_the_middle_of_two_hsets_is_no_hand_edit(desk: Desk) -> None:
    await desk.start()
    await desk.store.set_field("split:m", "stable", "960")
    await desk.look()
    await desk.store.set_field("split:m", "stable", "950")
    await desk.look(3)
    assert (await desk.state()).phase is Phase.RUNNING


async def test_a_paused_rollout_takes_no_step_but_goes_back_where_it_is_worse(desk: Desk) -> None:
    await desk.start()
    await desk.serve_well()
    await desk.order("pause")
    await desk.hold()
    assert (await desk.split(), (await desk.state()).phase) == (AT_5, Phase.PAUSED)
    await desk.serve("canary", 100, faults=60)
    assert ((await desk.state()).phase, await desk.split()) == (Phase.ROLLED_BACK, BACK)


async def test_resume_goes_on_where_it_was(desk: Desk) -> None:
    await desk.start()
    await desk.serve_well()
    await desk.order("pause")
    await desk.hold()
    await desk.order("resume")
    await desk.look()
    assert await desk.split() == AT_50


async def test_abort_gives_the_canary_nothing(desk: Desk) -> None:
    await desk.start()
    await desk.order("abort")
    assert ((await desk.state()).phase, await desk.split()) == (Phase.ABORTED, BACK)
    assert "order" not in await desk.fields()


async def test_promote_is_one_step_and_finish_all_of_them(desk: Desk) -> None:
    await desk.start()
    await desk.order("promote")
    assert await desk.split() == AT_50
    await desk.order("finish")
    assert ((await desk.state()).phase, await desk.split()) == (Phase.DONE, AT_100)


async def test_an_order_that_comes_too_late_is_taken_off_and_told(desk: Desk) -> None:
    await desk.start()
    await desk.order("abort")
    await desk.order("promote")
    assert "order" not in await desk.fields()
    assert await desk.split() == BACK
    assert (await desk.store.events(1))[0].why == "the order promote came too late"


async def test_a_freeze_holds_steps_and_never_the_way_back(desk: Desk) -> None:
    frozen = Act(id="a", deed=Deed(kind=Kind.FREEZE, what=("rollouts",)), since_ms=0, rule="r", cause="c")
    await desk.store.write_acts("test", [frozen], ())
    await desk.start()
    await desk.serve_well()
    await desk.hold()
    assert (await desk.split(), (await desk.why())[:20]) == (AT_5, "frozen by an action;")
    await desk.serve("canary", 100, faults=60)
    assert ((await desk.state()).phase, await desk.split()) == (Phase.ROLLED_BACK, BACK)


async def test_what_froze_it_lets_go_and_it_goes_on(desk: Desk) -> None:
    frozen = Act(id="a", deed=Deed(kind=Kind.FREEZE, what=("rollouts",)), since_ms=0, rule="r", cause="c")
    await desk.store.write_acts("test", [frozen], ())
    await desk.start()
    await desk.serve_well()
    await desk.hold()
    await desk.store.write_acts("test", [], ())
    await desk.look()
    assert await desk.split() == AT_50


async def test_a_plan_that_makes_no_sense_is_refused_until_it_does(desk: Desk) -> None:
    await desk.start(steps="5,1")
    assert ((await desk.state()).phase, await desk.why()) == (
        Phase.REFUSED,
        "the steps 5,1 do not rise; each has to be more than the one before",
    )
    assert await desk.told() == [("", "refused")]
    await desk.start(steps="5,100")
    assert await desk.split() == AT_5


async def test_limits_may_be_changed_while_it_goes(desk: Desk) -> None:
    await desk.start(hold="1h")
    await desk.serve_well()
    await desk.store.set_field(rollout_key("m"), "hold", "1s")
    await desk.look(2)
    assert await desk.split() == AT_50


async def test_fields_that_make_no_plan_any_more_pause_it_and_abort_goes_back_all_the_same(desk: Desk) -> None:
    await desk.start()
    await desk.store.set_field(rollout_key("m"), "hold", "soon")
    await desk.look(2)
    assert ((await desk.state()).phase, await desk.split()) == (Phase.PAUSED, AT_5)
    await desk.order("abort")
    assert ((await desk.state()).phase, await desk.split()) == (Phase.ABORTED, BACK)


async def test_what_is_refused_keeps_its_fields_until_it_makes_a_plan(desk: Desk) -> None:
    await desk.store.set_field(rollout_key("m"), "steps", "7,100")
    await desk.look(3)
    assert ((await desk.state()).phase, (await desk.fields())["steps"]) == (Phase.REFUSED, "7,100")
    await desk.store.set_field(rollout_key("m"), "to", "canary")
    await desk.look(2)
    assert await desk.split() == "stable=930 canary=70"


async def test_a_canary_that_serves_nobody_is_not_promoted_by_what_it_did_before(desk: Desk) -> None:
    await desk.start()
    await desk.serve_well()
    await desk.store.beat("ext_proc", "e", {"silent_versions": [["m", "canary"]]}, ttl_ms=600_000)
    await desk.hold()
    assert (await desk.split(), await desk.why()) == (
        AT_5,
        "the hold is over, and the canary serves nobody, for which it goes back after 2m",
    )
    await desk.store.beat("ext_proc", "e", {"silent_versions": [["m", "stable"]]}, ttl_ms=600_000)
    await desk.look()
    assert await desk.split() == AT_50


@pytest.mark.parametrize("paused", [False, True])
async def test_a_canary_that_serves_nobody_for_too_long_goes_back(desk: Desk, paused: bool) -> None:
    await desk.start(hold="1h", max_silence="30s")
    if paused:
        await desk.order("pause")
    await desk.store.beat("ext_proc", "e", {"silent_versions": [["m", "canary"]]}, ttl_ms=600_000)
    await desk.look(60)
    assert await desk.split() == AT_5
    await desk.look(2)
    state = await desk.state()
    assert (state.phase, await desk.split()) == (Phase.ROLLED_BACK, "stable=1000 canary=0")
    assert state.why.startswith("the canary served nobody for 30s")


async def test_silence_counts_anew_once_the_canary_served(desk: Desk) -> None:
    await desk.start(hold="1h", max_silence="30s")
    for _ in range(3):
        await desk.store.beat("ext_proc", "e", {"silent_versions": [["m", "canary"]]}, ttl_ms=600_000)
        await desk.look(50)
        await desk.store.beat("ext_proc", "e", {"silent_versions": []}, ttl_ms=600_000)
        await desk.look()
    assert await desk.split() == AT_5


async def test_silence_from_before_somebody_moved_the_split_counts_for_nothing(desk: Desk) -> None:
    await desk.start(hold="1h", max_silence="30s")
    await desk.store.beat("ext_proc", "e", {"silent_versions": [["m", "canary"]]}, ttl_ms=600_000)
    await desk.look(40)
    await desk.types(canary=200, stable=800)
    await desk.look(60)
    await desk.order("resume")
    await desk.look(20)
    assert ((await desk.state()).phase, await desk.split()) == (Phase.RUNNING, AT_5)


async def test_a_successor_knows_since_when_the_canary_is_silent(desk: Desk) -> None:
    await desk.start(hold="1h", max_silence="30s")
    await desk.store.beat("ext_proc", "e", {"silent_versions": [["m", "canary"]]}, ttl_ms=600_000)
    await desk.look(40)
    desk.start_controller()
    await desk.look(30)
    assert (await desk.state()).phase is Phase.ROLLED_BACK


@pytest.mark.parametrize("others", [{}, {"back_pressure": 100}, {"client_error": 100}])
async def test_a_canary_of_which_nothing_is_told_any_more_is_not_promoted(desk: Desk, others: dict[str, int]) -> None:
    await desk.start(hold="70s")
    await desk.serve_well()
    await desk.look(130)
    await desk.serve("canary", 0, **others)
    await desk.look(20)
    assert (await desk.split(), await desk.why()) == (
        AT_5,
        "the hold is over, and nothing tells of the canary in the last minute",
    )
    await desk.serve("canary", 1)
    assert await desk.split() == AT_50


async def test_too_few_requests_of_stable_are_no_reference_once_it_gets_none(desk: Desk) -> None:
    await desk.start(steps="50,100")
    await desk.serve("stable", 20, client_error=100)
    await desk.serve("canary", 100)
    await desk.order("promote")
    await desk.serve("canary", 100)
    await desk.hold()
    assert (await desk.state()).phase is Phase.DONE


async def test_a_reference_that_is_too_small_by_now_keeps_nobody_waiting(desk: Desk) -> None:
    await desk.start(steps="50,100")
    await desk.serve_well()
    await desk.hold()
    await desk.store.set_field(rollout_key("m"), "min_requests", "2000")
    await desk.serve("canary", 2000)
    await desk.hold()
    assert (await desk.state()).phase is Phase.DONE


async def test_a_rollout_begins_from_the_split_that_an_act_has_put_in_force(desk: Desk) -> None:
    split = Deed(kind=Kind.SPLIT, model="m", parts={"stable": 900, "other": 100})
    await desk.store.write_acts("test", [Act(id="a", deed=split, since_ms=0, rule="r", cause="c")], ())
    await desk.start(steps="5,90")
    assert await desk.split() == "stable=850 canary=50 other=100"


async def test_a_canary_that_may_be_worse_stays_until_it_is_clear(desk: Desk) -> None:
    await desk.start()
    await desk.serve("stable", 950)
    await desk.serve("canary", 60, faults=3)
    await desk.hold()
    assert await desk.split() == AT_5
    assert (await desk.why()).startswith("the hold is over, and the canary may be worse: 5.00% (3 of 60)")
    await desk.serve("canary", 2000)
    assert await desk.split() == AT_50


async def test_so_many_requests_of_the_canary_are_tested_once_whatever_stable_does_meanwhile(desk: Desk) -> None:
    """Or the levels of all looks would sum to more than the chance of an alarm."""
    await desk.start()
    await desk.serve("stable", 1000, ms=200)
    await desk.serve("canary", 50, ms=200)
    await desk.serve("stable", 50_000, ms=50)
    assert (await desk.state()).phase is Phase.RUNNING
    await desk.serve("canary", 1, ms=200)
    assert (await desk.state()).phase is Phase.ROLLED_BACK
