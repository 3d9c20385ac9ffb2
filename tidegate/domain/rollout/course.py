"""What happens next in a rollout: a step forward, a hold, a pause, the way back. State in, state out.

running ──step, step, …──▶ done            each step after its hold, when the canary is found good
   │  ▲                                    a canary that is worse goes back, also while it is paused or frozen
   │  └─resume── paused                    by an operator, or because somebody else moved the split
   ├─worse─────▶ rolled_back               the canary's share is 0; also where it serves nobody for too long
   └─abort─────▶ aborted                   the same, by an operator
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import msgspec

from tidegate.domain.lifetime import duration_text
from tidegate.domain.outcomes.version import Figures
from tidegate.domain.rollout.evidence import Evidence, Told
from tidegate.domain.rollout.plan import Plan, percent
from tidegate.domain.rollout.rule import ALARMS, Finding, Verdict, judge, judged
from tidegate.domain.split import Parts, fields_of, text_of


class Phase(StrEnum):
    """Where a rollout is. `refused`: its fields make no plan."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    ROLLED_BACK = "rolled_back"
    ABORTED = "aborted"
    REFUSED = "refused"


GOING: Final = frozenset({Phase.RUNNING, Phase.PAUSED})


class Order(StrEnum):
    """What an operator may say while it goes. `promote` is one step on, `finish` all of them."""

    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"
    PROMOTE = "promote"
    FINISH = "finish"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What a successor has to know. Times are Unix milliseconds of the store.

    step        index of the step in force
    since_ms    when it began; blind_ms: how long nobody told figures since, which is added to the hold
    looked_ms   the last look
    split       the text of the split that this rollout wrote last; before: of the one that it found
    by_hand     paused because somebody else moved the split
    silent_ms   since when the canary serves nobody, though requests were meant for it; 0 while it serves
    verdict     of the last look, with its figures in `figures`; why: what it waits for, or why it ended
    """

    phase: Phase
    stable: str = ""
    canary: str = ""
    step: int = 0
    began_ms: int = 0
    since_ms: int = 0
    looked_ms: int = 0
    blind_ms: int = 0
    split: str = ""
    before: str = ""
    by_hand: bool = False
    silent_ms: int = 0
    verdict: Verdict = Verdict.TOO_FEW
    figures: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen at `now_ms`: figures by run (none: nobody tells any), the split as typed, an order, a freeze.

    `silent`: requests were meant for the canary, and it serves nobody.
    """

    now_ms: int
    told: Told = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)
    order: str = ""
    frozen: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """What to write: state, evidence, the split where it changes, and a line of the audit log where one is due."""

    state: State
    evidence: Evidence
    parts: Parts | None = None
    before: str = ""
    after: str = ""
    why: str = ""


def begin(plan: Plan, look: Look, order: Sequence[str]) -> Turn:
    """The first step. `order` are the clusters that a split may name."""
    parts = plan.parts(plan.steps[0], order)
    state = State(
        phase=Phase.RUNNING,
        stable=plan.stable,
        canary=plan.canary,
        began_ms=look.now_ms,
        since_ms=look.now_ms,
        looked_ms=look.now_ms,
        split=text_of(parts),
        before=text_of(plan.before),
        why="began",
    )
    evidence = Evidence(block_since_ms=look.now_ms).with_told(look.told, (plan.stable, plan.canary), look.now_ms)
    return Turn(state, evidence, parts, after=place(plan, state), why=f"from {plan.stable} to {plan.canary}")


def advance(plan: Plan, state: State, evidence: Evidence, look: Look, order: Sequence[str]) -> Turn:
    """The next look at a rollout that goes."""
    return _Course(
        plan, state, evidence.with_told(look.told, (plan.stable, plan.canary), look.now_ms), look, order
    ).go()


def place(plan: Plan, state: State) -> str:
    """`step 2 of 5 (5 %)`."""
    return f"step {state.step + 1} of {len(plan.steps)} ({percent(plan.steps[state.step])})"


def ends_ms(plan: Plan, state: State) -> int:
    """When the hold of this step is over, in Unix milliseconds."""
    return state.since_ms + plan.hold_ms + state.blind_ms


@dataclass(frozen=True, slots=True)
class _Course:
    plan: Plan
    state: State
    evidence: Evidence
    look: Look
    order: Sequence[str]

    def go(self) -> Turn:
        """Orders first; then whoever else moved the split; then the figures."""
        if self.look.order == Order.ABORT:
            return self.back(Phase.ABORTED, "aborted by an operator")
        if self.look.order == Order.FINISH:
            return self._step(len(self.plan.steps) - 1, "promoted to the end by an operator", done=True)
        if self.look.order == Order.PROMOTE:
            return self.forward("promoted by an operator")
        if self.look.order == Order.RESUME and self.state.phase is Phase.PAUSED:
            return self._resume()
        if dict(self.look.typed) != fields_of(self.state.split):
            return self._moved_by_hand()
        return self._judged()

    @property
    def silence_ms(self) -> int:
        """For how long the canary serves nobody."""
        return self.look.now_ms - self.state.silent_ms if self.state.silent_ms else 0

    def _moved_by_hand(self) -> Turn:
        typed = " ".join(f"{name}={share}" for name, share in self.look.typed.items()) or "cleared"
        why = f"somebody else changed the split to {typed[:200]}; resume begins this step anew, abort goes back"
        return self.pause(why, by_hand=True)

    def _judged(self) -> Turn:
        finding = self._finding()
        came = self._with(verdict=finding.verdict, figures=finding.why)
        if finding.verdict is Verdict.WORSE:
            return came.back(Phase.ROLLED_BACK, finding.why)
        if came.silence_ms > self.plan.limits.max_silence_ms:
            return came.back(Phase.ROLLED_BACK, f"the canary served nobody for {duration_text(came.silence_ms)}")
        if self.look.order == Order.PAUSE:
            return came.pause("by an operator", by_hand=False)
        if self.state.phase is Phase.PAUSED:
            return Turn(came.state, came.evidence)
        waits = self._waits_for(finding)
        if waits is None:
            return came.forward(finding.why)
        return Turn(msgspec.structs.replace(came.state, why=waits), came.evidence)

    def _waits_for(self, finding: Finding) -> str | None:
        """Why this step is not over; None when it is."""
        if not self.look.told:
            return "nobody tells figures (see outcomes in `tidegate status`); nothing is decided until somebody does"
        if self.look.now_ms < ends_ms(self.plan, self.state) + self._blind_ms():
            return "the hold is not over"
        if finding.verdict is Verdict.TOO_FEW:
            return f"the hold is over, and nothing is decided: {finding.why}"
        if finding.verdict is Verdict.DOUBTFUL:
            return f"the hold is over, and the canary may be worse: {finding.why}"
        return "frozen by an action; see `tidegate actions`" if self.look.frozen else self._unseen()

    def _unseen(self) -> str | None:
        """Why what was found good may be so no longer: figures of a canary that gets nothing stay as they were."""
        if self.look.silent:
            most = duration_text(self.plan.limits.max_silence_ms)
            return f"the hold is over, and the canary serves nobody, for which it goes back after {most}"
        if not judged(self.evidence.lately(self.plan.canary)):
            return "the hold is over, and nothing tells of the canary in the last minute"
        return None

    def _finding(self) -> Finding:
        """At most one test for each number of judged requests, which is what bounds false alarms."""
        seen = judged(self.evidence.seen(self.plan.canary))
        if seen == self.evidence.looked_at and self.state.verdict is not Verdict.TOO_FEW:
            return Finding(self.state.verdict, self.state.figures)
        share = ALARMS / len(self.plan.steps) / 2
        whole = self._against(self.evidence.seen, share)
        if not self.evidence.has_past or whole.verdict is Verdict.WORSE:
            return whole
        lately = self._against(self.evidence.lately, share / (self.evidence.block * (self.evidence.block + 1)))
        if lately.verdict not in {Verdict.WORSE, Verdict.DOUBTFUL}:
            return whole
        return Finding(lately.verdict, f"in the last minute {lately.why}")

    def _against(self, seen: Callable[[str], Figures], share: float) -> Finding:
        return judge(seen(self.plan.canary), self._stable(seen), self.plan.limits, share)

    def _stable(self, seen: Callable[[str], Figures]) -> Figures | None:
        """Stable's figures of the same window; where it gets nothing any more, those of the step before, if enough."""
        parts = dict(self.plan.parts(self.plan.steps[self.state.step], self.order))
        if parts[self.plan.stable]:
            return seen(self.plan.stable)
        before = self.evidence.reference
        return before if before is not None and judged(before) >= self.plan.limits.min_requests else None

    def _blind_ms(self) -> int:
        return 0 if self.look.told else max(0, self.look.now_ms - self.state.looked_ms)

    def _with(self, **changes: object) -> _Course:
        silent_ms = (self.state.silent_ms or self.look.now_ms) if self.look.silent else 0
        state = msgspec.structs.replace(
            self.state,
            looked_ms=self.look.now_ms,
            blind_ms=self.state.blind_ms + self._blind_ms(),
            silent_ms=silent_ms,
            **changes,
        )
        seen = judged(self.evidence.seen(self.plan.canary))
        return replace(self, state=state, evidence=msgspec.structs.replace(self.evidence, looked_at=seen))

    def forward(self, why: str) -> Turn:
        last = self.state.step == len(self.plan.steps) - 1
        return self._end(Phase.DONE, why) if last else self._step(self.state.step + 1, why)

    def _step(self, step: int, why: str, *, done: bool = False) -> Turn:
        parts = self.plan.parts(self.plan.steps[step], self.order)
        state = msgspec.structs.replace(
            self.state,
            phase=Phase.DONE if done else Phase.RUNNING,
            step=step,
            since_ms=self.look.now_ms,
            looked_ms=self.look.now_ms,
            blind_ms=0,
            split=text_of(parts),
            by_hand=False,
            silent_ms=0,
            verdict=Verdict.TOO_FEW,
            figures="",
            why=why,
        )
        least = self.plan.limits.min_requests
        evidence = self.evidence.next_step(self.look.told, self.plan.stable, self.look.now_ms, least)
        after = "done" if done else place(self.plan, state)
        return Turn(state, evidence, parts, before=self._place(), after=after, why=why)

    def _resume(self) -> Turn:
        if self.state.by_hand:
            return self._step(self.state.step, "resumed by an operator; this step begins anew")
        state = msgspec.structs.replace(self.state, phase=Phase.RUNNING, looked_ms=self.look.now_ms, why="resumed")
        return Turn(state, self.evidence, before=self._place(), after=place(self.plan, state), why="resumed")

    def pause(self, why: str, *, by_hand: bool) -> Turn:
        known = self.state.phase is Phase.PAUSED and self.state.by_hand == by_hand
        state = msgspec.structs.replace(
            self.state, phase=Phase.PAUSED, by_hand=by_hand, why=why, looked_ms=self.look.now_ms
        )
        if known:
            return Turn(state, self.evidence)
        return Turn(state, self.evidence, before=self._place(), after="paused", why=why)

    def back(self, phase: Phase, why: str) -> Turn:
        parts = self.plan.parts(0, self.order)
        before = self._place()
        state = msgspec.structs.replace(
            self.state, phase=phase, split=text_of(parts), why=why, looked_ms=self.look.now_ms, by_hand=False
        )
        return Turn(state, self.evidence, parts, before=before, after=phase.replace("_", " "), why=why)

    def _end(self, phase: Phase, why: str) -> Turn:
        state = msgspec.structs.replace(self.state, phase=phase, why=why, looked_ms=self.look.now_ms)
        return Turn(state, self.evidence, before=self._place(), after=phase, why=why)

    def _place(self) -> str:
        return place(self.plan, self.state)
