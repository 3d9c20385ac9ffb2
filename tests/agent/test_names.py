"""The names that an engine lists go into its samples."""

from __future__ import annotations

import json

import pytest

from metrics_agent.scrape.http import Page, ScrapeFailedError
from metrics_agent.scrape.life import Failure
from metrics_agent.scrape.names import EVERY_SECONDS, MOST_NAMES, ServedNames, read_names


def page(*names):
    return json.dumps(
        {"object": "list", "data": [{"id": name, "object": "model", "root": "/x"} for name in names]}
    ).encode()


class Lists:
    """A PageSource that lists what a test says; a status or a Failure likewise."""

    def __init__(self):
        self.answer, self.asked = page("base"), 0

    async def get(self, address, path):
        self.asked += 1
        assert (address, path) == ("e:1", "/v1/models")
        if isinstance(self.answer, Failure):
            raise ScrapeFailedError(self.answer)
        return Page(self.answer, b"") if isinstance(self.answer, int) else Page(200, self.answer)


async def test_names_are_asked_for_every_few_seconds():
    lists = Lists()
    served = ServedNames(lists, "e:1")
    await served.refresh(100.0)
    lists.answer = page("base", "adapter")
    await served.refresh(100.0 + EVERY_SECONDS - 0.1)
    assert (served.names, lists.asked) == (("base",), 1)
    await served.refresh(100.0 + EVERY_SECONDS)
    assert served.names == ("base", "adapter")


@pytest.mark.parametrize("answer", [404, 500, Failure.TIMEOUT, b"{", b"[]", page(), b'{"data": [{"id": 7}]}'])
async def test_names_stay_when_the_engine_does_not_tell(answer):
    lists = Lists()
    served = ServedNames(lists, "e:1")
    await served.refresh(0.0)
    lists.answer = answer
    await served.refresh(EVERY_SECONDS)
    assert (served.names, lists.asked) == (("base",), 2)


async def test_an_engine_that_failed_is_asked_at_once():
    lists = Lists()
    served = ServedNames(lists, "e:1")
    await served.refresh(0.0)
    served.forget()
    lists.answer = page("other")
    await served.refresh(0.1)
    assert served.names == ("other",)


def test_what_can_be_no_name_is_left_out():
    assert read_names(page("a", "", "a", "b\nc", "x" * 257, "é/ü")) == ("a", "é/ü")
    assert len(read_names(page(*(str(n) for n in range(1000))))) == MOST_NAMES
