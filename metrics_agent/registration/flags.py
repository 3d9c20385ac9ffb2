"""`--engine CLUSTER=HOST:PORT[,model=NAME][,precision=…][,kind=…][,gpus=0;1][,engine=…][,metrics=HOST:PORT/PATH]`.

Lists are written `gpus=0;1`, `gpus=0,1` or `gpus=0,gpus=1`; a variable of the environment keeps its commas:
`gpus=CUDA_VISIBLE_DEVICES=0,1;CUDA_DEVICE_ORDER=PCI_BUS_ID`. `model` and `models`, `gpu` and `gpus` are the same, and
the address may be written as the URL that it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from metrics_agent.registration.section import target_of
from metrics_agent.targets import Source, Target
from tidegate.domain.errors import ConfigError
from tidegate.domain.topology import GPU_VARIABLES
from tidegate.settings.config_sentences import nearest
from tidegate.settings.config_tree import Tree

LISTS: Final = {"model": "models", "models": "models", "gpu": "gpus", "gpus": "gpus"}
WORDS: Final = ("precision", "kind", "engine", "metrics")
_VARIABLE: Final = re.compile(rf"\s*(?:{'|'.join(GPU_VARIABLES)})=")
_BETWEEN_ITEMS: Final = re.compile(rf";|,(?={_VARIABLE.pattern})")
EXAMPLE: Final = "write CLUSTER=HOST:PORT, such as phi-3=10.0.0.5:8000,model=phi-3,gpus=0;1"


def read_flags(texts: Iterable[str]) -> list[Target]:
    """The engines that `--engine` names. Raises ConfigError with every fault."""
    found: list[Target] = []
    faults: list[str] = []
    for text in texts:
        target, said = _read(text)
        found += [target] if target else []
        faults += [f"--engine {text}: {one}" for one in said]
    if faults:
        raise ConfigError(faults)
    return found


def _read(text: str) -> tuple[Target | None, list[str]]:
    head, *options = text.strip().split(",")
    cluster, equals, address = head.partition("=")
    if not equals or not cluster or not address:
        return None, [EXAMPLE]
    if address.startswith("https://"):
        return None, ["engines are scraped by plain http; write the port that serves it"]
    value: dict[str, Any] = {
        "cluster": cluster.strip(),
        "address": address.strip().removeprefix("http://").rstrip("/"),
    }
    if faults := _add(value, options):
        return None, faults
    target, wrong = target_of(Tree(value=value), Source.FLAG)
    return target, [f"{fault.path}: {fault.sentence}" for fault in wrong]


def _add(value: dict[str, Any], options: Iterable[str]) -> list[str]:
    """Put the options into `value`; what is wrong with them. A part without a name goes on with the list before."""
    faults, open_list = [], ""
    lists: dict[str, list[str]] = {}
    for option in filter(None, map(str.strip, options)):
        name, equals, said = option.partition("=")
        if open_list and (not equals or _goes_on(open_list, name)):
            lists[open_list][-1] += f",{option}"
        elif name in LISTS:
            open_list = LISTS[name]
            lists.setdefault(open_list, []).append(said)
        elif name in WORDS:
            value[name], open_list = said, ""
        else:
            faults.append(f"{name!r} is no option{nearest(name, [*LISTS, *WORDS])}")
    value |= {name: [item for text in texts for item in _items(name, text)] for name, texts in lists.items()}
    return faults


def _goes_on(name: str, before_equals: str) -> bool:
    """Whether an equals sign is that of a variable: `…,1;CUDA_DEVICE_ORDER=PCI_BUS_ID`."""
    return name == "gpus" and before_equals.rpartition(";")[2].strip() in GPU_VARIABLES


def _items(name: str, said: str) -> list[int | str]:
    if name != "gpus":
        return list(filter(None, map(str.strip, re.split("[;,]", said))))
    parts = (part for part in _BETWEEN_ITEMS.split(said))
    items = [item for part in parts for item in ([part] if _VARIABLE.match(part) else part.split(","))]
    return [int(item) if item.isascii() and item.isdigit() else item for item in map(str.strip, items) if item]
