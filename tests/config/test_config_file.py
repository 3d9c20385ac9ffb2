"""The configuration file: what it may say, and that every fault is told with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.errors import ConfigError
from tidegate.domain.routing import Api, Media, RouteMatch, RouteRule, Split, TokenRange
from tidegate.domain.topology import Cluster, Endpoint, Kind, LbPolicy, Precision, Topology
from tidegate.settings.config_file import FileConfig, Gateway, load, parse

SMALL = "clusters: [{name: a, models: [m]}]\n"

EXAMPLE = """\
redis: {url: redis://127.0.0.1:6379/0, prefix: tidegate}
gateway: {listen: 0.0.0.0:10000, max_request_bytes: 33554432, expose_routing: false}
clusters:
  - name: phi-3
    models: [phi-3, microsoft/Phi-3-mini-4k-instruct]
    kind: llm                 # llm | diffusion
    lb: pick                  # pick: ext_proc names the replica; weighted: Envoy's round robin by pushed weight
    precision: fp16           # fp16 | bf16 | fp8 | int8 | int4
    context_tokens: 4096
    endpoints: [{address: 10.0.0.5:8000, node: gpu-1, gpus: [0]}]   # optional; agents register more
routes:                       # first match wins; without one, the model's name decides
  - {match: {model: qwen2.5-72b, prompt_tokens: ">8192"}, cluster: qwen-long}
  - {match: {model: qwen2.5-72b, header: {x-tier: free}}, cluster: qwen-int4}
default_model: null           # what a request without a model gets; null answers 400
splits: {qwen2.5-72b: {qwen-stable: 990, qwen-canary: 10}}      # parts per thousand; live in split:{model}
"""
NAMED = "".join(
    f"  - {{name: {name}, models: []}}\n" for name in ("qwen-long", "qwen-int4", "qwen-stable", "qwen-canary")
)


def faults(text: str, name: str = "tidegate.yaml") -> list[str]:
    """What is said about a text, one line a fault; empty when it is a good file."""
    try:
        parse(text, name)
    except ConfigError as exc:
        return exc.faults
    return []


# --- good files ----------------------------------------------------------------------------------------------


def test_the_example_of_the_design_loads_once_its_clusters_are_there() -> None:
    topology = parse(EXAMPLE.replace("routes:", NAMED + "routes:"), "tidegate.yaml").topology
    phi = Cluster(
        name="phi-3",
        models=("phi-3", "microsoft/Phi-3-mini-4k-instruct"),
        kind=Kind.LLM,
        lb=LbPolicy.PICK,
        precision=Precision.FP16,
        context_tokens=4096,
        endpoints=(Endpoint("10.0.0.5:8000", "gpu-1", (0,)),),
    )
    assert topology.clusters[0] == phi
    assert topology.routes == (
        RouteRule(RouteMatch(model="qwen2.5-72b", prompt_tokens=TokenRange(8193)), "qwen-long"),
        RouteRule(RouteMatch(model="qwen2.5-72b", headers=(("x-tier", "free"),)), "qwen-int4"),
    )
    assert topology.splits == (Split("qwen2.5-72b", (("qwen-stable", 990), ("qwen-canary", 10))),)


def test_the_example_as_printed_lacks_only_the_clusters_that_it_names() -> None:
    unknown = ["12: routes[0].cluster", "13: routes[1].cluster"]
    unknown += [f"15: splits['qwen2.5-72b'].{name}" for name in ("qwen-canary", "qwen-stable")]
    found = faults(EXAMPLE)
    assert [fault.split(": there is no cluster")[0].removeprefix("tidegate.yaml:") for fault in found] == unknown


def test_a_small_file_gets_the_defaults() -> None:
    expected = FileConfig(
        redis_url="redis://127.0.0.1:6379/0",
        redis_prefix="tidegate",
        gateway=Gateway("127.0.0.1:10000", 32 * 1024 * 1024, expose_routing=False),
        topology=Topology(clusters=(Cluster(name="a", models=("m",)),)),
    )
    assert parse(SMALL, "tidegate.yaml") == expected


@pytest.mark.parametrize("indent", ["\t", 2, None], ids=["tabs", "spaces", "one line"])
def test_json_says_the_same_as_yaml(tmp_path: Path, indent: str | int | None) -> None:
    values = {
        "gateway": {"listen": "[::]:0", "expose_routing": True},
        "clusters": [
            {"name": "a", "models": ["m\u00e9/\U0001f600", "n\\t"], "context_tokens": 10},
            {"name": "b", "models": [], "kind": "diffusion", "endpoints": [{"address": "[::1]:8000"}]},
        ],
    }
    path = tmp_path / "tidegate.json"
    path.write_text(json.dumps(values, indent=indent))
    config = load(path)
    assert config.gateway.listen == "[::]:0"
    assert [one.models for one in config.topology.clusters] == [("m\u00e9/\U0001f600", "n\\t"), ()]
    assert config.topology.clusters[1].endpoints == (Endpoint("[::1]:8000"),)


def test_a_match_of_every_kind_is_read() -> None:
    text = (
        SMALL
        + """\
routes:
  - match: {model: m, header: {X-Tier: "1"}, prompt_tokens: 1..9, output_tokens: "<=5", media: image, api: chat}
    cluster: a
"""
    )
    [route] = parse(text, "tidegate.yaml").topology.routes
    assert route.match == RouteMatch(
        model="m",
        headers=(("x-tier", "1"),),
        prompt_tokens=TokenRange(1, 9),
        output_tokens=TokenRange(0, 5),
        media=Media.IMAGE,
        api=Api.CHAT,
    )


def test_anchors_and_merges_are_followed() -> None:
    text = """\
clusters:
  - &base {name: a, models: [m], lb: weighted, precision: int4}
  - {<<: *base, name: b, models: []}
  - <<: [{precision: fp8}, *base]
    name: c
    models: []
"""
    clusters = parse(text, "tidegate.yaml").topology.clusters
    assert [(one.name, one.lb.value, one.precision.value) for one in clusters] == [
        ("a", "weighted", "int4"),
        ("b", "weighted", "int4"),
        ("c", "weighted", "fp8"),
    ]


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert load(path) == parse(SMALL, "x")


# --- faults of values ----------------------------------------------------------------------------------------


def in_cluster(line: str) -> str:
    return f"clusters:\n  - name: a\n    models: []\n    {line}\n"


def in_match(line: str) -> str:
    return SMALL + f"routes:\n  - cluster: a\n    match: {{{line}}}\n"


FAULTS = {
    "cluster by a name of Envoy's own clusters": (
        "clusters:\n  - {name: tidegate_ext_proc, models: [m]}\n",
        "2: clusters[0].name: 'tidegate_ext_proc' begins with 'tidegate_', which Tidegate keeps for itself",
    ),
    "endpoint without port": (
        in_cluster("endpoints: [{address: foo}]"),
        "4: clusters[0].endpoints[0].address: 'foo' is not host:port with a port from 1 to 65535",
    ),
    "endpoint on an impossible IPv4": (in_cluster("endpoints: [{address: '999.1.1.1:80'}]"), "has no valid host"),
    "endpoint on no name": (in_cluster("endpoints: [{address: '-:80'}]"), "has no valid host"),
    "endpoint on a star": (in_cluster("endpoints: [{address: '*:80'}]"), "has no valid host"),
    "endpoint at port 0": (in_cluster("endpoints: [{address: 'a:0'}]"), "4: clusters[0].endpoints[0].address: 'a:0' is not"),
    "endpoint with a scheme": (in_cluster("endpoints: [{address: 'http://a:1'}]"), "address: 'http://a:1' has an IPv6 host"),
    "endpoint spelt oddly": (in_cluster("endpoints: [{address: 'a:080'}]"), "write 'a:80'"),
    "endpoint IPv6 spelt oddly": (in_cluster("endpoints: [{address: '[0:0::1]:80'}]"), "write '[::1]:80'"),
    "endpoint that YAML reads as a number": (
        in_cluster("endpoints: [{address: 10:30}]"),
        "4: clusters[0].endpoints[0].address: 10:30 (a number) where text belongs; put it in quotes",
    ),
    "endpoint twice": (
        in_cluster("endpoints:\n      - address: a:1\n      - address: a:1"),
        "6: clusters[0].endpoints[1].address: 'a:1' is in this cluster already (line 5)",
    ),
    "endpoint as text": (in_cluster("endpoints: [a:1]"), "4: clusters[0].endpoints[0]: the text 'a:1' where a mapping belongs"),
    "endpoint key": (in_cluster("endpoints: [{address: a:1, gpu: [0]}]"), "endpoints[0].gpu: unknown key; did you mean 'gpus'?"),
    "gpu": (in_cluster("endpoints: [{address: a:1, gpus: [true]}]"), "gpus[0]: True is neither an NVML index"),
    "cluster name": (SMALL.replace("a,", "a b,"), "1: clusters[0].name: 'a b' is no name"),
    "cluster name with a bar": (SMALL.replace("a,", "'a|b',"), "1: clusters[0].name: 'a|b' is no name"),
    "cluster name twice": (
        "clusters:\n- {name: a, models: []}\n- {name: b, models: []}\n- {name: a, models: []}\n",
        "4: clusters[2].name: 'a' is the name of clusters[0] too (line 2)",
    ),
    "cluster without models": ("clusters:\n- name: a\n", "2: clusters[0].models: is missing"),
    "cluster key": (in_cluster("precison: fp8"), "4: clusters[0].precison: unknown key; did you mean 'precision'?"),
    "cluster kind": (in_cluster("kind: llmm"), "4: clusters[0].kind: llmm is none of llm, diffusion"),
    "cluster kind null": (in_cluster("kind:"), "4: clusters[0].kind: has no value; give it one"),
    "cluster context": (in_cluster("context_tokens: 0"), "4: clusters[0].context_tokens: 0 is too small; it has to be more than 0"),
    "cluster context quoted": (in_cluster("context_tokens: '4096'"), "the text '4096' where a whole number belongs; write it without quotes"),
    "cluster context fraction": (in_cluster("context_tokens: 1.5"), "1.5 (a number) where a whole number belongs"),
    "cluster context boolean": (in_cluster("context_tokens: yes"), "yes (true or false) where a whole number belongs"),
    "model that is a number": (SMALL.replace("[m]", "[7]"), "1: clusters[0].models[0]: 7 (a number) where text belongs; put it in quotes"),
    "model that is a boolean": (SMALL.replace("[m]", "[on]"), "models[0]: on (true or false) where text belongs; put it in quotes"),
    "model that is a date": (SMALL.replace("[m]", "[2024-01-01]"), "models[0]: 2024-01-01 (a date) where text belongs; put it in quotes"),
    "model that is null": (SMALL.replace("[m]", "[~]"), "models[0]: has no value; give it one or remove the key"),
    "model that is empty": (SMALL.replace("[m]", "['']"), "models[0]: is empty"),
    "model with a space": (SMALL.replace("[m]", "[' m']"), "models[0]: ' m' begins or ends with a space"),
    "model with a line break": (SMALL.replace("[m]", '["a\\nb"]'), "models[0]: 'a\\nb' has a control character"),
    "models as text": (SMALL.replace("[m]", "m"), "1: clusters[0].models: the text 'm' where a list belongs"),
    "model in two clusters": (
        "clusters:\n- {name: a, models: [m]}\n- {name: b, models: [n, m]}\n",
        "3: clusters[1].models[1]: 'm' is a model of cluster 'a' already (line 2)",
    ),
    "model twice in one cluster": (SMALL.replace("[m]", "[m, m]"), "models[1]: 'm' is a model of cluster 'a' already"),
    "clusters missing": ("gateway: {}\n", "1: clusters: is missing"),
    "clusters empty": ("clusters: []\n", "1: clusters: is empty; it needs at least one entry"),
    "clusters null": ("clusters:\n", "1: clusters: has no value"),
    "clusters as mapping": ("clusters: {a: {}}\n", "1: clusters: a mapping where a list belongs"),
    "top-level key": (SMALL + "gatway: {}\n", "2: gatway: unknown key; did you mean 'gateway'?"),
    "top-level key like nothing": (SMALL + "zzz: 1\n", "2: zzz: unknown key; known: redis, gateway, clusters, routes"),
    "listen without port": (SMALL + "gateway: {listen: 0.0.0.0}\n", "2: gateway.listen: '0.0.0.0' is not host:port"),
    "listen on a bad port": (SMALL + "gateway: {listen: '0.0.0.0:99999'}\n", "2: gateway.listen: '0.0.0.0:99999' is not host:port"),
    "listen on a name": (SMALL + "gateway: {listen: 'localhost:80'}\n", "'localhost' is not an IP address; write 0.0.0.0"),
    "listen on no host": (SMALL + "gateway: {listen: ':0'}\n", "gateway.listen: ':1' has no valid host"),
    "request bytes": (SMALL + "gateway: {max_request_bytes: 0}\n", "gateway.max_request_bytes: 0 is too small"),
    "request bytes too many": (SMALL + "gateway: {max_request_bytes: 4294967296}\n", "is too large; it has to be less than"),
    "expose_routing": (SMALL + "gateway: {expose_routing: 'no'}\n", "gateway.expose_routing: the text 'no' where true or false belongs"),
    "gateway null": (SMALL + "gateway:\n", "2: gateway: has no value"),
    "redis scheme": (SMALL + "redis: {url: 'http://:hush@a'}\n", "2: redis.url: the Redis URL has to begin with one of"),
    "redis prefix": (SMALL + "redis: {prefix: ''}\n", "2: redis.prefix: '' is no prefix"),
    "default model": (SMALL + "default_model: mm\n", "2: default_model: nothing has the model 'mm'; did you mean 'm'?"),
    "alias of nothing": (SMALL + "aliases: {x: mm}\n", "2: aliases.x: nothing has the model 'mm'; did you mean 'm'?"),
    "alias of a model": (SMALL + "aliases: {m: m}\n", "2: aliases.m: 'm' is a model already; an alias needs a name of its own"),
    "alias of itself": (SMALL + "aliases: {x: x}\n", "2: aliases.x: 'x' leads back to itself; it has to end at a model"),
    "aliases in a circle": (SMALL + "aliases:\n  x: y\n  y: x\n", "3: aliases.x: 'x' leads back to itself"),
    "alias without a name": (SMALL + "aliases: {x: null}\n", "2: aliases.x: has no value"),
    "alias with a control character": (SMALL + 'aliases: {"x\\ny": m}\n', "has a control character"),
    "adapter that is a model": ("clusters:\n- {name: a, models: [m]}\n- {name: b, models: [], loras: [m]}\n", "'m' is a model of cluster 'a' already"),
    "adapter of two clusters": (
        "clusters:\n- {name: b, models: [], loras: [l]}\n- {name: c, models: [], loras: [l]}\n",
        "3: clusters[1].loras[0]: 'l' is a model of cluster 'b' already",
    ),
    "origin": (SMALL + "gateway: {cors_origin: app.test}\n", "gateway.cors_origin: 'app.test' is no origin; write https://host"),
    "route to nowhere": (SMALL + "routes: [{match: {}, cluster: b}]\n", "2: routes[0].cluster: there is no cluster 'b'; known: a"),
    "route without cluster": (SMALL + "routes:\n- match: {}\n", "3: routes[0].cluster: is missing"),
    "route header twice": (in_match("header: {X-A: x, x-a: y}"), "4: routes[0].match.header.x-a: the header is given twice"),
    "route header name": (in_match("header: {'x a': x}"), "routes[0].match.header['x a']: 'x a' is no header name"),
    "route header value": (in_match('header: {x: "a\\nb"}'), "routes[0].match.header.x: 'a\\nb' has a line break"),
    "route header number": (in_match("header: {x: 1}"), "routes[0].match.header.x: 1 (a number) where text belongs; put it in quotes"),
    "comparison": (in_match("prompt_tokens: '8192'"), "4: routes[0].match.prompt_tokens: '8192' is no comparison; write '>8192'"),
    "comparison that is a number": (in_match("prompt_tokens: 8192"), "8192 (a number) where text belongs"),
    "range the wrong way round": (in_match("output_tokens: 9..1"), "'9..1' is empty: its first number is the greater one"),
    "media": (in_match("media: smell"), "routes[0].match.media: smell is none of image, audio, video"),
    "match key": (in_match("modle: m"), "4: routes[0].match.modle: unknown key; did you mean 'model'?"),
    "split sum": (SMALL + "splits:\n  m: {a: 999}\n", "3: splits.m: its parts sum to 999; they have to sum to 1000"),
    "split of nothing": (SMALL + "splits:\n  m: {}\n", "3: splits.m: its parts sum to 0"),
    "split to nowhere": (SMALL + "splits:\n  m: {b: 1000}\n", "3: splits.m.b: there is no cluster 'b'"),
    "split below zero": (SMALL + "splits:\n  m: {a: -1}\n", "3: splits.m.a: -1 is too small; it has to be 0 or more"),
    "split text": (SMALL + "splits:\n  m: {a: 1000‰}\n", "3: splits.m.a: the text '1000‰' where a whole number belongs"),
    "number as key": (SMALL + "splits:\n  7: {a: 1000}\n", "3: splits: the key 7 is not text; put it in quotes"),
    "list as key": (SMALL + "? [a]\n: 1\n", "2: the key (a list or mapping) is not text"),
    "key twice": (in_cluster("models: [x]"), "4: clusters[0].models: the key is given twice, first on line 3"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_told_with_its_place(text: str, says: str) -> None:
    found = faults(text)
    assert any(says in fault for fault in found), found
    assert all(fault.startswith("tidegate.yaml:") for fault in found)
    assert "hush" not in "".join(found)


@pytest.mark.parametrize("text", [text for name, (text, _) in FAULTS.items() if "as key" not in name])
def test_one_mistake_is_one_fault(text: str) -> None:
    assert len(faults(text)) == 1


def test_a_file_tells_all_its_faults_by_line() -> None:
    text = """\
redis: {url: "ftp://x", prefix: 3}
gateway: {listen: nowhere}
clusters:
  - name: a
    models: [m, 7]
    kind: banana
  - name: a
    models: [m]
    endpoints: [{address: foo}, {address: b:1}, {address: b:1}]
    colour: red
routes: [{cluster: zzz}]
default_model: nothing
splits: {m: {a: 1, c: 2}}
"""
    expected = [
        "1: redis.prefix",
        "1: redis.url",
        "2: gateway.listen",
        "5: clusters[0].models[1]",
        "6: clusters[0].kind",
        "7: clusters[1].name",
        "8: clusters[1].models[0]",
        "9: clusters[1].endpoints[0].address",
        "9: clusters[1].endpoints[2].address",
        "10: clusters[1].colour",
        "11: routes[0].cluster",
        "11: routes[0].match",
        "12: default_model",
        "13: splits.m",
        "13: splits.m.c",
    ]
    assert [": ".join(fault.split(": ")[:2]).removeprefix("tidegate.yaml:") for fault in faults(text)] == expected


# --- faults of the file itself -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "tidegate.yaml:1: the file is empty"),
        ("# nothing\n---\n", "tidegate.yaml:1: "),
        ("- a\n", "tidegate.yaml:1: the file holds no mapping"),
        ("clusters:\n\t- name: a\n", "tidegate.yaml:2: not YAML: found character a tab"),
        ("clusters: [\n  {name: a\n", "tidegate.yaml:3: not YAML:"),
        ("a: 1\n---\nb: 2\n", "tidegate.yaml:2: not YAML:"),
        ("a: &x [*x]\n", "tidegate.yaml:1: a[0]: an alias contains itself"),
        ("a: &x {<<: *x}\n", "tidegate.yaml:1: "),
        ("a: {<<: 3}\n", "tidegate.yaml:1: a: << takes a mapping"),
        ("a: 1\nb: \x01\n", "tidegate.yaml:2: not YAML: a character that is not allowed"),
        ("a: *nobody\n", "tidegate.yaml:1: not YAML: found undefined alias"),
        ("a: !!python/object/apply:os.system [id]\n", "tidegate.yaml:1: a: the tag !!python/object/apply:os.system is not accepted"),
        ("a: !!binary aGk=\n", "tidegate.yaml:1: a: the tag !!binary is not accepted"),
        ("a: !!int x\n", "tidegate.yaml:1: a: 'x' cannot be read"),
        ("a: 2024-13-45\n", "tidegate.yaml:1: a: '2024-13-45' cannot be read"),
        ("a: " + "[" * 5000 + "]" * 5000, "tidegate.yaml:1: the file is nested too deeply"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "tidegate.yaml:1: the file is nested too deeply"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_configuration_is_told_so(text: str, says: str) -> None:
    found = faults(text)
    assert any(fault.startswith(says) for fault in found), found


def test_aliases_that_explode_are_stopped() -> None:
    text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
    text += "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    assert any("aliases expand to more than" in fault for fault in faults(text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n\t"clusters": [\n\t\t{"name": "a", "models": [7]}\n\t]\n}', "tidegate.json:3: clusters[0].models[0]: 7 (a number)"),
        ('{\n"clusters": [],\n"clusters": []}', "tidegate.json:3: clusters: the key is given twice, first on line 2"),
        ('{\n"clusters": [,]\n}', "tidegate.json:2: not JSON: expecting value (column 14)"),
        ('{"clusters": [{"name": "a", "models": [], "context_tokens": 1e3}]}', "context_tokens: 1e3 (a number) where a whole number"),
        ("clusters: []", "tidegate.json:1: not JSON"),
        ("", "tidegate.json:1: not JSON"),
    ],
)  # fmt: skip
def test_faults_of_json_have_lines_too(text: str, says: str) -> None:
    found = faults(text, "tidegate.json")
    assert any(says in fault for fault in found), found


def missing(folder: Path) -> Path:
    return folder / "none.yaml"


def directory(folder: Path) -> Path:
    return folder


def latin1(folder: Path) -> Path:
    (folder / "l.yaml").write_bytes(b"a: caf\xe9\n")
    return folder / "l.yaml"


def loop(folder: Path) -> Path:
    (folder / "loop.yaml").symlink_to(folder / "loop.yaml")
    return folder / "loop.yaml"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (missing, "there is no such file"),
        (directory, "it is a directory"),
        (latin1, "it is not UTF-8 text (byte 6)"),
        (loop, "it cannot be read: Too many levels of symbolic links"),
        (lambda _: Path("a\0b"), "it cannot be read"),
    ],
    ids=["missing", "directory", "latin-1", "symlink loop", "NUL in its name"],
)
def test_a_file_that_cannot_be_read_is_one_fault(tmp_path: Path, make: Callable[[Path], Path], says: str) -> None:
    path = make(tmp_path)
    with pytest.raises(ConfigError) as raised:
        load(path)
    assert raised.value.faults[0].startswith(f"{path}: {says}")
    assert len(raised.value.faults) == 1


pieces = st.sampled_from(
    ["clusters", ": ", "\n", "  ", "- ", "{", "}", "[", "]", "name", "a", "7", "null", ", ", "&x ", "*x", "<<", '"', "'",
     "#", "|", ">", "? ", "!!int ", "\t", "splits", "models", "endpoints", "address", "routes", "match", "header"]
)  # fmt: skip


@given(st.lists(pieces, max_size=25).map("".join) | st.text(max_size=40))
def test_any_text_is_a_configuration_or_has_faults(text: str) -> None:
    for fault in faults(text):
        assert fault.startswith("tidegate.yaml:")


edits = st.tuples(st.integers(0, len(EXAMPLE)), st.integers(0, 12), pieces)


@given(st.lists(edits, max_size=3))
def test_any_edit_of_the_example_is_a_configuration_or_has_faults(changes: list[tuple[int, int, str]]) -> None:
    text = EXAMPLE
    for at, length, piece in changes:
        text = text[:at] + piece + text[at + length :]
    assert all(fault.startswith("tidegate.yaml:") for fault in faults(text))


def test_aliases_end_at_a_model_an_adapter_or_what_rules_and_splits_name() -> None:
    text = """
    clusters: [{name: a, models: [m], loras: [l]}, {name: b, models: []}]
    aliases: {x: y, y: z, z: l, p: ruled, q: split}
    default_model: x
    routes: [{match: {model: ruled, api: chat}, cluster: b, model: other}]
    splits: {split: {a: 1000}}
    """
    topology = parse(text, "tidegate.yaml").topology
    assert dict(topology.aliases) == {"x": "l", "y": "l", "z": "l", "p": "ruled", "q": "split"}
    assert topology.names == ("m", "l", "x", "y", "z", "p", "q")
    assert topology.routes[0].model == "other"
    assert topology.clusters[0].loras == ("l",)


def test_every_endpoint_of_the_gateway_can_stand_in_a_rule() -> None:
    for api in Api:
        text = f"clusters: [{{name: a, models: [m]}}]\nroutes: [{{match: {{api: {api}}}, cluster: a}}]\n"
        assert parse(text, "tidegate.yaml").topology.routes[0].match.api is api


def test_headers_of_rules_are_told_once_each_in_lower_case() -> None:
    text = "clusters: [{name: a, models: [m]}]\nroutes:\n"
    text += "  - {match: {header: {X-B: '1', x-a: '2'}}, cluster: a}\n  - {match: {header: {x-b: '3'}}, cluster: a}\n"
    assert parse(text, "tidegate.yaml").topology.rule_headers == ("x-a", "x-b")
