"""Lists of prompts: completions, embeddings, rerank and the engines' own endpoints."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

from ext_proc.parse.allowance import PART_COST
from ext_proc.parse.body import Item
from ext_proc.parse.prompt import Prompt
from tidegate.domain.request import LARGEST_COUNT


def read_prompts(prompt: Prompt, value: Any) -> int:
    """A prompt or a list of prompts, each of text, token ids or an object; how many there are, at least 1.

    Only the first is fingerprinted.
    """
    ids = _ids(value)
    if ids is None and type(value) is list:
        return max(1, _each(prompt, value))
    if ids is not None:
        prompt.ids(ids)
    elif type(value) is Item:
        _object(prompt, value)
    else:
        prompt.value(value)
    prompt.end()
    return 1


def _each(prompt: Prompt, listed: list[Any]) -> int:
    prompt.spend(len(listed))
    chain, rest = prompt.chain, iter(listed)
    if not any(_one(prompt, one) for one in rest):
        return 0
    prompt.end()
    prompt.chain = None
    found = 1 + _others(prompt, rest)
    prompt.chain = chain
    return found


def _one(prompt: Prompt, one: Any) -> bool:
    """One prompt of many; whether it is one."""
    kind = type(one)
    if kind is str:
        prompt.text(one)
    elif kind is Item:
        _object(prompt, one)
    elif kind is not list:
        return False
    elif (ids := _ids(one)) is not None:
        prompt.ids(ids)
    else:
        prompt.spend(PART_COST - 1)
        prompt.value(one)
    return True


def _others(prompt: Prompt, listed: Iterator[Any]) -> int:
    """The prompts after the first, which are counted alone; a hundred thousand texts take 10 ms."""
    chars = ids = found = 0
    for one in listed:
        kind = type(one)
        if kind is str:
            chars += len(one)
        elif kind is Item:
            if one.type is None and type(one.text) is str:
                chars += len(one.text)
            else:
                _object(prompt, one)
        elif kind is list and (length := _count_ids(one)):
            ids += length
        elif not _one(prompt, one):
            continue
        found += 1
    prompt.chars += chars
    if ids:
        prompt.token_ids = (prompt.token_ids or 0) + ids
    return found


def _object(prompt: Prompt, one: Item) -> None:
    prompt.spend(PART_COST - 1)
    if one.prompt_token_ids is None:
        prompt.item(one, 0)
        return
    ids = _ids(one.prompt_token_ids)
    if ids is not None:
        prompt.ids(ids)


def _ids(value: Any) -> array[int] | None:
    """A list of nothing but whole numbers; one beyond 64 bits is no token, and reads as 0."""
    if type(value) is not list or not value or type(value[0]) is not int:
        return None
    try:
        return array("q", value)
    except TypeError:
        return None
    except OverflowError:
        small = [number if abs(number) <= LARGEST_COUNT else 0 for number in value if type(number) is int]
        return array("q", small) if len(small) == len(value) else None


def _count_ids(value: list[Any]) -> int:
    """How many token ids a list holds that begins and ends with one; 0 for any other list."""
    return len(value) if value and type(value[0]) is type(value[-1]) is int else 0
