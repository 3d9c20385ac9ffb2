"""`tidegate rollout`: a model moves to another version step by step, and goes back by itself where that is worse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from tidegate.cli.connection import Target, on_cluster
from tidegate.cli.look import new_console
from tidegate.cli.orders import DryRun, operator_name
from tidegate.cli.rollout_view import print_list, print_one, values
from tidegate.domain.actions.layers import with_splits
from tidegate.domain.errors import ConfigError
from tidegate.domain.lifetime import duration_text
from tidegate.domain.operators import FieldChange
from tidegate.domain.rollout.course import GOING, Order, State
from tidegate.domain.rollout.plan import (
    HOLD,
    MAX_ERROR_RATE,
    MAX_P95_RATIO,
    MAX_SILENCE,
    MIN_REQUESTS,
    STEPS,
    Plan,
    percent,
    read_plan,
)
from tidegate.domain.split import Parts, fields_of, in_force, split_key
from tidegate.domain.topology import Topology
from tidegate.store.ports import Event, Store
from tidegate.store.rollouts import ORDER, STATE, decode_state, rollout_key

HEARD_WITHIN_SECONDS: Final = 3.0
LOOK_SECONDS: Final = 0.1

Model = Annotated[str, typer.Argument(help="the model, as clients name it")]
Json = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]

app = typer.Typer(no_args_is_help=True, help="Move a model to another version step by step; back where that is worse.")


@app.command("start")
@on_cluster
def start(
    target: Target,
    model: Model,
    to: Annotated[str, typer.Option("--to", metavar="CLUSTER", help="the version that is to take over")],
    from_: Annotated[
        str | None, typer.Option("--from", metavar="CLUSTER", help="the version it takes from; else the largest")
    ] = None,
    steps: Annotated[str, typer.Option(help="its shares in percent, rising; 0.1 % is the least")] = STEPS,
    hold: Annotated[str, typer.Option(help="how long each step is held at least: 90s, 10m, 1h30m")] = HOLD,
    max_error_rate: Annotated[
        str, typer.Option(help="faults that it may have, however few the other version has: 0.01 or 1%")
    ] = MAX_ERROR_RATE,
    max_p95_ratio: Annotated[
        str, typer.Option(help="its p95 may be so many times the other version's")
    ] = MAX_P95_RATIO,
    min_requests: Annotated[str, typer.Option(help="of each version in a step; fewer decide nothing")] = MIN_REQUESTS,
    max_silence: Annotated[
        str, typer.Option(help="it goes back once none of its replicas has served for so long: 30s, 2m")
    ] = MAX_SILENCE,
    dry_run: DryRun = False,
) -> None:
    """Begin a rollout. Each step goes on after its hold where the canary is not worse, and back to 0 where it is."""
    fields = {
        "to": to,
        **({"from": from_} if from_ else {}),
        "steps": steps,
        "hold": hold,
        "max_error_rate": max_error_rate,
        "max_p95_ratio": max_p95_ratio,
        "min_requests": min_requests,
        "max_silence": max_silence,
    }

    async def go(store: Store) -> None:
        scene = await _scene(store, target.topology, model)
        _refuse_a_second(scene)
        plan = _plan(scene, fields)
        print(f"{model}: from {plan.stable} to {plan.canary}: {', '.join(map(percent, plan.steps))}, each for {hold}")
        print(_limits(plan))
        if dry_run:
            print("nothing was changed (--dry-run)")
            return
        key = rollout_key(model)
        gone = [FieldChange(key=key, field=name, value=None) for name in scene.fields.keys() - fields.keys()]
        changes = [FieldChange(key=key, field=name, value=text) for name, text in fields.items()]
        await store.change_fields(gone + changes, [await _said(store, model, "", f"to {to}", "asked for")])
        for line in await _warnings(store, plan):
            print(line)
        await _heard(store, model, lambda now: STATE in now)

    target.ask(go)


@app.command("show")
@on_cluster
def show(
    target: Target,
    model: Annotated[str | None, typer.Argument(help="the model; without it, every rollout")] = None,
    json_output: Json = False,
) -> None:
    """Show where a rollout is, what it waits for, and what both versions did since the step began."""

    async def go(store: Store) -> dict[str, dict[str, str]]:
        return (await store.rollouts(await _models(store, target.topology, model)))[0]

    found = target.ask(go)
    if model is not None and model not in found:
        raise ConfigError([f"{model} has no rollout; `tidegate rollout start {model} --to CLUSTER` begins one"])
    told = [values(name, fields) for name, fields in sorted(found.items())]
    if json_output:
        print(json.dumps(told[0] if model is not None else told, indent=1))
    elif model is not None:
        print_one(new_console(), told[0])
    else:
        print_list(new_console(), told)


@app.command("list")
@on_cluster
def listed(target: Target, json_output: Json = False) -> None:
    """List all rollouts, also those that have ended."""
    found = target.ask(lambda store: _all(store, target.topology))
    told = [values(name, fields) for name, fields in sorted(found.items())]
    if json_output:
        print(json.dumps(told, indent=1))
    else:
        print_list(new_console(), told)


@app.command("pause")
@on_cluster
def pause(target: Target, model: Model) -> None:
    """Take no further step until `resume`. A canary that is worse goes back all the same."""
    _order(target, model, Order.PAUSE)


@app.command("resume")
@on_cluster
def resume(target: Target, model: Model) -> None:
    """Go on. Where somebody moved the split by hand, the step begins anew."""
    _order(target, model, Order.RESUME)


@app.command("abort")
@on_cluster
def abort(target: Target, model: Model) -> None:
    """Go back: the canary gets nothing, and the rollout is over."""
    _order(target, model, Order.ABORT)


@app.command("promote")
@on_cluster
def promote(
    target: Target,
    model: Model,
    full: Annotated[bool, typer.Option("--full", help="to the last step at once, and be done")] = False,
) -> None:
    """Take the next step now, whatever the figures say."""
    _order(target, model, Order.FINISH if full else Order.PROMOTE)


@dataclass(frozen=True, slots=True)
class _Scene:
    """What is known before a command acts. `versions` are the clusters that a split of the model may name."""

    model: str
    fields: Mapping[str, str]
    in_force: Parts
    versions: Sequence[str]

    @property
    def state(self) -> State | None:
        return decode_state(self.fields.get(STATE))


async def _scene(store: Store, topology: Topology | None, model: str) -> _Scene:
    if topology is not None and model not in topology.split_models:
        known = ", ".join(topology.split_models) or "none"
        raise ConfigError([f"no model of the file is called {model} (there are: {known})"])
    fields = (await store.rollouts([model]))[0].get(model, {})
    tuned = (await store.operator_keys((), ())).tuned
    tuned = with_splits(tuned, await store.effects(), [model])
    if topology is None:
        typed = fields_of(tuned.get(split_key(model), ""))
        parts = tuple((name, int(share)) for name, share in typed.items() if share.isdecimal())
        return _Scene(model, fields, parts, tuple(typed))
    split = in_force(topology, tuned).get(model)
    versions = topology.versions(model)
    return _Scene(model, fields, split.parts if split else ((versions[0], 1000),), versions)


def _plan(scene: _Scene, fields: Mapping[str, str]) -> Plan:
    versions = scene.versions
    if not scene.in_force:
        raise ConfigError(
            [f"{scene.model} has no split yet; name the configuration with --config, so that its cluster is known"]
        )
    try:
        return read_plan(fields, scene.in_force, versions)
    except ValueError as exc:
        raise ConfigError([f"{scene.model}: {exc}"]) from exc


def _refuse_a_second(scene: _Scene) -> None:
    state = scene.state
    if state is not None and state.phase in GOING:
        why = f"a rollout of {scene.model} to {state.canary} goes on already (step {state.step + 1}, {state.phase})"
        raise ConfigError([f"{why}; `tidegate rollout abort {scene.model}` ends it"])


def _limits(plan: Plan) -> str:
    limits = plan.limits
    return (
        f"back where it has more than {limits.max_error_ratio:.2%} faults and more than {plan.stable},"
        f" or a p95 beyond {limits.max_p95_ratio:g} times, or no replica that serves for"
        f" {duration_text(limits.max_silence_ms)}; fewer than {limits.min_requests} requests decide nothing"
    )


async def _warnings(store: Store, plan: Plan) -> list[str]:
    """What keeps a rollout from going on."""
    said = []
    if await store.leader() is None:
        said.append("no controller leads at present; it begins once one does")
    if not any(report.run for report in await store.outcomes((), (), ["any"])):
        said.append("nobody tells how requests end (outcomes); it holds its first step until somebody does")
    shares = dict(plan.before)
    if shares.get(plan.canary, 0) > plan.steps[0]:
        said.append(f"{plan.canary} had {percent(shares[plan.canary])}; the first step gives it less")
    return said


def _order(target: Target, model: str, order: Order) -> None:
    async def go(store: Store) -> None:
        scene = await _scene(store, target.topology, model)
        _refuse_to_order(scene, order)
        change = FieldChange(key=rollout_key(model), field=ORDER, value=str(order))
        await store.change_fields([change], [await _said(store, model, "", str(order), "ordered")])
        await _heard(store, model, lambda now: ORDER not in now)

    target.ask(go)


def _refuse_to_order(scene: _Scene, order: Order) -> None:
    state = scene.state
    if state is None or state.phase not in GOING:
        why = "there is none" if state is None else f"it is {state.phase.replace('_', ' ')}"
        raise ConfigError([f"no rollout of {scene.model} goes on: {why}"])
    if order is Order.RESUME and state.phase != "paused":
        raise ConfigError([f"the rollout of {scene.model} is not paused"])


async def _heard(store: Store, model: str, done: Any) -> None:
    """Wait until the controller has carried it out, and print where the rollout is."""
    for _ in range(round(HEARD_WITHIN_SECONDS / LOOK_SECONDS)):
        fields = (await store.rollouts([model]))[0].get(model, {})
        if done(fields):
            told = values(model, fields)
            print(f"{model}: {told['place']}: {told['why']}")
            return
        await asyncio.sleep(LOOK_SECONDS)
    print(f"written; no controller has taken it up yet (`tidegate rollout show {model}`)")


async def _said(store: Store, model: str, before: str, after: str, why: str) -> Event:
    at_ms = round(await store.time_ms())
    return Event(at_ms=at_ms, who=operator_name(), what=rollout_key(model), before=before, after=after, why=why)


async def _models(store: Store, topology: Topology | None, model: str | None) -> Sequence[str]:
    if model is not None:
        return [model]
    return topology.split_models if topology is not None else list((await store.rollouts(()))[1])


async def _all(store: Store, topology: Topology | None) -> dict[str, dict[str, str]]:
    return (await store.rollouts(await _models(store, topology, None)))[0]
