"""Every Redis key of Tidegate, its shape, and the codec between it and the domain.

A field that is absent is unknown: it decodes to None, never 0, and a field that holds garbage (not a number,
negative, a ratio outside [0, 1]) is unknown too. Extra fields are ignored. Times are Unix milliseconds.

One file, if a long one: who wonders what a key holds has one place to look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import msgspec

from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick, Status
from tidegate.store.fields import amount, count, gpus, names, ratio, status, text, texts, word
from tidegate.store.ports import Event, RawOperatorKeys

TUNED: Final = "tuned"
EVENTS_KEPT: Final = 10_000
INDEX_KEPT_MS: Final = 3_600_000  # nodes and services leave their index an hour after their last word

_encoder = msgspec.json.Encoder()
_any_decoder = msgspec.json.Decoder()
_tick_decoder = msgspec.json.Decoder(NodeTick)
_mix_decoder = msgspec.json.Decoder(dict[str, dict[str, dict[int, int]]])
_info_decoder = msgspec.json.Decoder(dict[str, Any])

Reply = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Keys:
    """Key names under one prefix.

    Agents:      node:{node}                       hash, expires   sampled_at_ms seq nvml gpus
                 endpoint:{cluster}:{host:port}    hash, expires   node sampled_at_ms seq status running …
                 endpoints                         zset            {cluster}|{host:port} by sampled_at_ms
                 gone                              zset            {cluster}|{host:port} by when it left on purpose
                 nodes                             zset            {node} by sampled_at_ms
                 samples                           channel         one message a node and tick
    Operators:   tune, tune:{cluster}              hash            tunable → value
                 weight:{cluster}                  hash            host:port → 0…1000
                 drain:{cluster}                   hash            host:port → reason
                 split:{model}                     hash            cluster → parts per thousand
    Controller:  effective:{cluster}               hash            host:port → weight
                 explain:{cluster}                 hash            host:port → JSON
                 acts                              hash            source → JSON list of acts in force
                 notices                           hash            alert or annotation → JSON of what was heard of it
                 scale:{cluster}                   hash            desired reason since_ms …
                 leader                            string, expires fencing token and lease holder
                 rejected                          hash            operator key → why
                 tuned                             hash            operator key → the text in force
                 events                            stream          at_ms who what before after why
                 rollout:{model}                   hash            a rollout, as `rollouts` draws it; operators begin it
                 rollouts                          hash            model → when its rollout began
                 split_history:{model}             stream          at_ms why versions, as `rollouts` draws it
                 decided                           channel         an empty message: look at once
    Services:    service:{service}:{instance}      string, expires JSON with beat_at_ms
                 services                          zset            {service}|{instance} by beat_at_ms
                 probe                             string, expires whether Redis takes writes
                 mix:{instance}                    string, expires JSON: cluster → host:port → class → requests
                 mixes                             zset            {instance} by when it told
                 outcomes:{instance}               hash, expires   cluster:{cluster}, model:{model} → MessagePack
                 outcomes                          zset            {instance} by when it told
    Hooks:       inbox                             list            JSON of notices that the leader has not taken in
    ext_proc:    picks                             channel         dispatches of an instance, as `picks` draws them
    """

    prefix: str = "tidegate"

    def of(self, name: str) -> str:
        """`name` under the prefix: what operators call `weight:phi-3` is `tidegate:weight:phi-3`."""
        return f"{self.prefix}:{name}"

    def node(self, node: str) -> str:
        return self.of(f"node:{node}")

    def endpoint(self, cluster: str, address: str) -> str:
        return self.of(f"endpoint:{cluster}:{address}")

    @property
    def endpoints(self) -> str:
        return self.of("endpoints")

    @property
    def gone(self) -> str:
        return self.of("gone")

    @property
    def nodes(self) -> str:
        return self.of("nodes")

    @property
    def samples(self) -> str:
        return self.of("samples")

    def effective(self, cluster: str) -> str:
        return self.of(f"effective:{cluster}")

    def explain(self, cluster: str) -> str:
        return self.of(f"explain:{cluster}")

    def scale(self, cluster: str) -> str:
        return self.of(f"scale:{cluster}")

    def mix(self, instance: str) -> str:
        return self.of(f"mix:{instance}")

    @property
    def mixes(self) -> str:
        return self.of("mixes")

    def told_outcomes(self, instance: str) -> str:
        return self.of(f"outcomes:{instance}")

    @property
    def notices(self) -> str:
        return self.of("notices")

    @property
    def inbox(self) -> str:
        return self.of("inbox")

    @property
    def acts(self) -> str:
        return self.of("acts")

    @property
    def outcomes(self) -> str:
        return self.of("outcomes")

    @property
    def leader(self) -> str:
        return self.of("leader")

    @property
    def rejected(self) -> str:
        return self.of("rejected")

    @property
    def tuned(self) -> str:
        return self.of(TUNED)

    @property
    def events(self) -> str:
        return self.of("events")

    @property
    def decided(self) -> str:
        return self.of("decided")

    @property
    def picks(self) -> str:
        return self.of("picks")

    def service(self, service: str, instance: str) -> str:
        return self.of(f"service:{service}:{instance}")

    @property
    def services(self) -> str:
        return self.of("services")


def weight_key(cluster: str) -> str:
    """`weight:{cluster}`, without the prefix, as operators name it in `rejected` and set_field."""
    return f"weight:{cluster}"


def drain_key(cluster: str) -> str:
    """`drain:{cluster}`, without the prefix."""
    return f"drain:{cluster}"


def tune_key(scope: str) -> str:
    """`tune` for the scope "" (every cluster), else `tune:{cluster}`; without the prefix."""
    return f"tune:{scope}" if scope else "tune"


def split_key(model: str) -> str:
    """`split:{model}`, without the prefix."""
    return f"split:{model}"


OPERATOR_KINDS: Final = ("weight:", "drain:", "tune:", "split:", "rollout:")


def operator_hashes(keys: RawOperatorKeys) -> dict[str, Mapping[str, str]]:
    """What operators typed, by key without the prefix."""
    kinds = ((keys.weights, weight_key), (keys.drains, drain_key), (keys.tunes, tune_key), (keys.splits, split_key))
    return {key_of(name): fields for listed, key_of in kinds for name, fields in listed.items()}


# --- members of the indexes: `{left}|{right}`, left has no bar ----------------------------------------------


def member(left: str, right: str) -> str:
    """`phi-3|10.0.0.5:8000`, `xds|host:123`."""
    return f"{left}|{right}"


@lru_cache(maxsize=1 << 16)  # the same members several times a second
def split_member(raw: bytes) -> tuple[str, str] | None:
    """The two halves, or None when there is no bar."""
    left, bar, right = text(raw).partition("|")
    return (left, right) if bar else None


_ENDPOINT_FIELDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "status": status,
    "running": count,
    "waiting": count,
    "kv_used_ratio": ratio,
    "kv_capacity_tokens": count,
    "block_size": count,
    "vram_free_bytes": count,
    "vram_total_bytes": count,
    "latency_p99_ms": amount,
    "tokens_per_second": amount,
    "prefix_hit_ratio": ratio,
    "prompt_tokens_total": count,
    "prompts_total": count,
    "ttft_p99_ms": amount,
    "admission_rejections_total": count,
    "generation_tokens_total": count,
    "requests_finished_total": count,
    "loras": names,
    "max_loras": count,
    "models": names,
    "precision": word,
    "kind": word,
}


_DECODED: Final = {name.encode(): (name, decode) for name, decode in _ENDPOINT_FIELDS.items()}


def split_index(flat: Sequence[Any]) -> dict[tuple[str, str], int]:
    """An index as ZRANGE … WITHSCORES answers: (cluster, address) → Unix ms, in its order."""
    pairs = ((split_member(name), score) for name, score in zip(flat[::2], flat[1::2], strict=True))
    return {names: int(float(score)) for names, score in pairs if names is not None}


# --- samples in hashes --------------------------------------------------------------------------------------


def encode_endpoint(sample: EndpointSample) -> dict[str, str | int | bytes]:
    """Fields of `endpoint:{cluster}:{host:port}`; unknown ones are left out.

    node sampled_at_ms seq status running waiting kv_used_ratio kv_capacity_tokens block_size vram_free_bytes
    vram_total_bytes latency_p99_ms tokens_per_second prefix_hit_ratio prompt_tokens_total prompts_total
    ttft_p99_ms admission_rejections_total generation_tokens_total requests_finished_total
    loras (JSON list) max_loras models (JSON list) precision kind
    """
    known = _known(sample)
    del known["cluster"], known["address"]
    return {name: _field(value) for name, value in known.items()}


def decode_endpoint(cluster: str, address: str, reply: Mapping[bytes, Any]) -> EndpointSample | None:
    """A sample from its hash. None without `node`, `sampled_at_ms` and `seq`: then it is not a sample."""
    node, at = word(reply.get(b"node")), count(reply.get(b"sampled_at_ms"))
    seq = count(reply.get(b"seq"))
    if node is None or at is None or seq is None:
        return None
    known = {field[0]: field[1](raw) for name, raw in reply.items() if (field := _DECODED.get(name)) is not None}
    known.setdefault("status", Status.UNREACHABLE)
    return EndpointSample(cluster=cluster, address=address, node=node, sampled_at_ms=at, seq=seq, **known)


def encode_node(sample: NodeSample) -> dict[str, str | int | bytes]:
    """Fields of `node:{node}`: sampled_at_ms seq nvml gpus (JSON by UUID)."""
    return {
        "sampled_at_ms": sample.sampled_at_ms,
        "seq": sample.seq,
        "nvml": sample.nvml,
        "gpus": to_json(sample.gpus),
    }


def decode_node(node: str, reply: Mapping[bytes, Any]) -> NodeSample | None:
    """A node from its hash; None without `sampled_at_ms` and `seq`. An absent `nvml` reads "unknown"."""
    at, seq = count(reply.get(b"sampled_at_ms")), count(reply.get(b"seq"))
    if at is None or seq is None:
        return None
    nvml = word(reply.get(b"nvml")) or "unknown"
    return NodeSample(node=node, sampled_at_ms=at, seq=seq, nvml=nvml, gpus=gpus(reply.get(b"gpus")))


def _known(sample: EndpointSample) -> dict[str, Any]:
    values = zip(_SAMPLE_NAMES, _sample_values(sample), strict=True)
    return {name: value for name, value in values if value is not None and value != ()}


_SAMPLE_NAMES: Final = tuple(field.name for field in fields(EndpointSample))
_sample_values: Final = attrgetter(*_SAMPLE_NAMES)


def _field(value: Any) -> str | int | bytes:
    if isinstance(value, tuple):
        return to_json(value)
    return value if isinstance(value, int) else str(value)


# --- the channel `samples` ----------------------------------------------------------------------------------


def encode_tick(tick: NodeTick) -> bytes:
    """One message: `{"node": {node sampled_at_ms seq nvml gpus}, "endpoints": [{cluster address …}]}`.

    With `"gone": [[cluster, address]]` when endpoints left.
    """
    gone = {"gone": tick.gone} if tick.gone else {}
    return to_json({"node": tick.node, "endpoints": [_known(sample) for sample in tick.endpoints], **gone})


def decode_tick(message: bytes) -> NodeTick | None:
    """The tick of a message; None when it is not one. A bad field of a good message is unknown.

    A message as Tidegate's agents write it decodes straight into the dataclasses, any other field by field.
    """
    try:
        tick = _tick_decoder.decode(message)
    except (msgspec.DecodeError, UnicodeError):
        return _decode_tick_by_field(message)
    return tick if all(map(_plausible, tick.endpoints)) else _decode_tick_by_field(message)


def _plausible(sample: EndpointSample) -> bool:
    """Whether no field is out of its range. Written out: it runs for every sample of the fleet."""
    kv, hits = sample.kv_used_ratio, sample.prefix_hit_ratio
    return (
        sample.sampled_at_ms >= 0
        and (kv is None or 0 <= kv <= 1)
        and (hits is None or 0 <= hits <= 1)
        and (sample.running or 0) >= 0
        and (sample.waiting or 0) >= 0
        and (sample.latency_p99_ms or 0) >= 0
        and (sample.tokens_per_second or 0) >= 0
        and (sample.vram_free_bytes or 0) >= 0
        and (sample.vram_total_bytes or 0) >= 0
        and (sample.kv_capacity_tokens or 0) >= 0
        and (sample.block_size or 0) >= 0
        and (sample.prompt_tokens_total or 0) >= 0
        and (sample.prompts_total or 0) >= 0
        and (sample.ttft_p99_ms or 0) >= 0
        and (sample.admission_rejections_total or 0) >= 0
        and (sample.generation_tokens_total or 0) >= 0
        and (sample.requests_finished_total or 0) >= 0
        and (sample.max_loras or 0) >= 0
    )


def _decode_tick_by_field(message: bytes) -> NodeTick | None:
    try:
        raw = _any_decoder.decode(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    head = raw.get("node") if isinstance(raw, dict) else None
    name = word(head.get("node")) if isinstance(head, dict) else None
    node = decode_node(name, _like_reply(head)) if name and isinstance(head, dict) else None
    if node is None:
        return None
    listed = raw.get("endpoints")
    decoded = (_decode_endpoint_object(one) for one in (listed if isinstance(listed, list) else ()))
    known = tuple(one for one in decoded if one is not None)
    return NodeTick(node=node, endpoints=known, gone=_places(raw.get("gone")))


def _places(raw: Any) -> tuple[tuple[str, str], ...]:
    """A list of [cluster, address] as pairs; what is not one is left out."""
    pairs = [one for one in raw if isinstance(one, list) and len(one) == 2] if isinstance(raw, list) else []
    return tuple((a, b) for a, b in pairs if isinstance(a, str) and isinstance(b, str))


def _decode_endpoint_object(raw: Any) -> EndpointSample | None:
    if not isinstance(raw, dict):
        return None
    cluster, address = word(raw.get("cluster")), word(raw.get("address"))
    return decode_endpoint(cluster, address, _like_reply(raw)) if cluster and address else None


def _like_reply(raw: dict[str, Any]) -> dict[bytes, Any]:
    return {name.encode("utf-8", "replace"): value for name, value in raw.items()}


# --- decisions, events, presence ----------------------------------------------------------------------------


def to_json(value: Any) -> bytes:
    """Compact JSON."""
    return _encoder.encode(value)


def from_json(raw: bytes) -> dict[str, Any] | None:
    """A JSON object, or None for anything else."""
    try:
        return _info_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def decode_weights(reply: Reply) -> dict[str, int]:
    """`effective:{cluster}`: host:port → weight; a value that is not a whole number ≥ 0 is left out."""
    decoded = ((text(address), count(value)) for address, value in reply.items())
    return {address: weight for address, weight in decoded if weight is not None}


def decode_explain(reply: Reply) -> dict[str, dict[str, Any]]:
    """`explain:{cluster}`: host:port → object; a value that is not a JSON object is left out."""
    decoded = ((text(address), from_json(value)) for address, value in reply.items())
    return {address: why for address, why in decoded if why is not None}


def encode_event(event: Event) -> list[str | int]:
    """Names and values of one entry of `events`: at_ms who what, and those of before after why that are set."""
    pairs: list[str | int] = ["at_ms", event.at_ms, "who", event.who, "what", event.what]
    for name in ("before", "after", "why"):
        if value := getattr(event, name):
            pairs += [name, value]
    return pairs


def decode_event(reply: Reply) -> Event:
    """One entry of `events`. One without a time reads as 1970, so that nothing of the audit log is hidden."""
    said = texts(reply)
    optional = {name: said.get(name, "") for name in ("before", "after", "why")}
    at = count(reply.get(b"at_ms", b"")) or 0
    return Event(at_ms=at, who=said.get("who", ""), what=said.get("what", ""), **optional)


def decode_mix(raw: bytes) -> dict[str, dict[str, dict[int, int]]] | None:
    """`mix:{instance}`; None when it is not of that shape."""
    try:
        return _mix_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def group_presence(
    members: Sequence[tuple[str, str]], beats: Iterable[bytes | None]
) -> dict[str, dict[str, dict[str, Any]]]:
    """service → instance → info, of the members whose beat is still there."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for (service, instance), raw in zip(members, beats, strict=True):
        info = from_json(raw) if raw is not None else None
        if info is not None:
            found.setdefault(service, {})[instance] = info
    return found
