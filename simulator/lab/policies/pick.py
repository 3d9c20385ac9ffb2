"""The product's picker: `tidegate.domain.pick`, told what ext_proc tells it."""

from __future__ import annotations

from typing import Final

from simulator.engine import EngineParams
from simulator.lab.call import Call
from simulator.lab.policy import Setting
from simulator.lab.replica import EPOCH_MS
from tidegate.domain.pick.picker import ClusterPicker, Handle
from tidegate.domain.pick.record import DispatchRecord
from tidegate.domain.pick.settings import PickSettings
from tidegate.domain.pick.verdict import Verdict
from tidegate.domain.sample import EndpointSample

SAMPLE_TTL_MS: Final = 3_000


class PickPolicy:
    """A `ClusterPicker` with default settings; its first guess of the rates is what the setting believes."""

    def __init__(self, setting: Setting) -> None:
        self._picker = ClusterPicker(_settings(setting.params), sample_ttl_ms=SAMPLE_TTL_MS)
        self._picker.shares_with(setting.others, setting.place)
        self._addresses = [replica.address for replica in setting.fleet]
        self._numbers = {address: number for number, address in enumerate(self._addresses)}
        self._handles: dict[Call, Handle] = {}
        self._rng = setting.rng
        for address in self._addresses:
            self._picker.joined(address, address)

    def choose(self, call: Call, now: float) -> int | None:
        """The first replica named. Before any sample Envoy's balancing decides: any replica."""
        pick = self._picker.pick(call.work, _ms(now))
        if pick.verdict is Verdict.CHOSEN:
            return self._numbers[pick.chosen[0].address]
        return None if pick.verdict is Verdict.FULL else self._rng.randrange(len(self._addresses))

    def sent(self, call: Call, replica: int, now: float) -> object:
        """Into the ledger, and to the other pickers."""
        handle = self._handles[call] = self._picker.sent(self._addresses[replica], call.work, _ms(now))
        return self._picker.dispatch_record(handle)

    def began(self, call: Call, replica: int, now: float) -> None:
        """No response passes through ext_proc: it does not see the first token."""

    def ended(self, call: Call, replica: int, now: float) -> None:  # noqa: ARG002
        """The stream of the request closes."""
        self._picker.ended(self._handles.pop(call), _ms(now))

    def sampled(self, replica: int, sample: EndpointSample, now: float) -> None:  # noqa: ARG002
        """As published by the agent."""
        self._picker.sampled(sample, _ms(now))

    def sent_elsewhere(self, record: object, now: float) -> None:
        """As published by the other picker."""
        assert isinstance(record, DispatchRecord)
        self._picker.sent_elsewhere(record, _ms(now))


def _ms(now: float) -> float:
    return EPOCH_MS + now * 1000


def _settings(believed: EngineParams) -> PickSettings:
    """The defaults, but for the first guess of the rates."""
    return PickSettings(
        prefill_tokens_per_second=believed.cost.prefill_tokens_per_second,
        step_tokens=believed.max_num_batched_tokens,
        step_seconds=believed.cost.base_seconds,
        sequence_seconds=believed.cost.seconds_per_sequence,
        context_seconds=believed.cost.seconds_per_context_token,
    )
