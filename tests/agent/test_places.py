"""Where an engine's metrics and its health page are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrics_agent.scrape.effort import Effort
from metrics_agent.scrape.health import Health
from metrics_agent.scrape.http import Page, ScrapeFailedError
from metrics_agent.scrape.life import Failure
from metrics_agent.scrape.places import EnginePage, Place, metrics_place, places
from metrics_agent.targets import Target
from metrics_agent.vendors import TRITON_TRTLLM
from tests.agent.test_reading import PAGES

NOW = 1_767_225_700.0


class Server:
    """A PageSource of some pages: bytes, a status, a Page or a Failure by `host:port/path`; 404 for the rest."""

    def __init__(self, **pages):
        self.pages = pages
        self.asked = []

    async def get(self, address, path):
        self.asked.append(address + path)
        answer = self.pages.get(address + path, 404)
        if isinstance(answer, Failure):
            raise ScrapeFailedError(answer)
        if isinstance(answer, Page):
            return answer
        return Page(answer, b'{"detail":"Not Found"}') if isinstance(answer, int) else Page(200, answer)


def body(name):
    return (Path(PAGES) / name).read_bytes()


def engine_page(server, **target):
    return EnginePage(server, Target("c", "e:1", **target), Effort())


async def kinds(page, *times, health="/health"):
    return [(await page.read(now, NOW, health)).vendor for now in times]


async def test_metrics_of_trtllm_serve_are_found_and_stay_found():
    server = Server(**{"e:1/metrics": b"[]", "e:1/prometheus/metrics": body("trtllm_serve.txt")})
    page = engine_page(server)
    assert await kinds(page, 0.0, 0.1, 0.2) == ["trtllm-serve"] * 3
    assert server.asked == ["e:1/metrics", *["e:1/prometheus/metrics"] * 3]


async def test_pinned_engine_is_looked_for_in_its_place_first():
    server = Server(**{"e:1/prometheus/metrics": body("trtllm_serve.txt")})
    assert await kinds(engine_page(server, engine="trtllm-serve"), 0.0) == ["trtllm-serve"]
    assert server.asked == ["e:1/prometheus/metrics"]


@pytest.mark.parametrize("engine", [None, "trtllm-serve"])
async def test_iterations_are_read_where_there_is_nothing_better(engine):
    server = Server(**{"e:1/metrics": body("trtllm_serve_iterations.json")})
    page = engine_page(server, engine=engine)
    await page.read(0.0, NOW, "/health")
    assert (await page.read(0.1, NOW, "/health")).running == 9
    server.pages["e:1/prometheus/metrics"] = body("trtllm_serve.txt")
    assert (await page.read(2.0, NOW, "/health")).running == 14


async def test_list_of_iterations_says_nothing_of_another_engine():
    server = Server(**{"e:1/metrics": body("trtllm_serve_iterations.json")})
    assert await kinds(engine_page(server, engine="vllm"), 0.0) == [None]


async def test_triton_is_asked_on_its_metrics_port_once_its_health_page_is_known():
    server = Server(**{"e:8002/metrics": body("triton_trtllm.txt")})
    page = engine_page(server)
    assert await kinds(page, 0.0, health="/health") == [None]
    assert "e:8002/metrics" not in server.asked
    assert await kinds(page, 2.0, 2.1, health="/v2/health/ready") == ["triton-trtllm"] * 2


async def test_other_places_are_looked_at_once_a_second_while_nothing_is_known():
    server = Server(**{"e:1/metrics": body("edge_python_families.txt")})
    page = engine_page(server)
    await kinds(page, *(tick / 10 for tick in range(20)))
    assert (server.asked.count("e:1/metrics"), server.asked.count("e:1/prometheus/metrics")) == (20, 2)


async def test_redirect_to_the_same_server_is_a_place_to_look():
    server = Server(**{"e:1/metrics": Page(307, b"", "/metrics/"), "e:1/metrics/": body("vllm_0.26.0.txt")})
    assert await kinds(engine_page(server), 0.0, 0.1) == ["vllm", "vllm"]
    assert server.asked == ["e:1/metrics", "e:1/metrics/", "e:1/metrics/"]


async def test_metrics_are_where_the_file_says_and_nowhere_else():
    server = Server(**{"ray:8080/metrics": body("ray_vllm.txt"), "e:1/metrics": body("tgi_3.txt")})
    assert await kinds(engine_page(server, metrics="ray:8080"), 0.0) == ["ray-vllm"]
    server.pages["ray:8080/metrics"] = b""
    assert await kinds(engine_page(server, metrics="ray:8080"), 5.0) == [None]


async def test_nobody_at_a_separate_metrics_port_leaves_the_engine_unknown_not_dead():
    server = Server(**{"ray:8080/metrics": Failure.REFUSED})
    assert await kinds(engine_page(server, metrics="ray:8080"), 0.0) == [None]


@pytest.mark.parametrize(
    ("why", "answer"),
    [
        (Failure.REFUSED, Failure.REFUSED),
        (Failure.TIMEOUT, Failure.TIMEOUT),
        (Failure.STATUS, 503),
        (Failure.BROKEN, Page(200, b"vllm:num_requests_running 1", sized=False)),
    ],
)
async def test_failure_of_the_page_is_told(why, answer):
    with pytest.raises(ScrapeFailedError) as caught:
        await engine_page(Server(**{"e:1/metrics": answer})).read(0.0, NOW, None)
    assert caught.value.why is why


async def test_failure_at_another_place_is_not():
    server = Server(**{"e:1/metrics": b"", "e:1/prometheus/metrics": 500})
    assert await kinds(engine_page(server), 0.0) == [None]


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (Place("a:1", "/metrics"), "a:1"),
        (Place("a:1", "/metrics"), "a:1/"),
        (Place("a:1", "/x/y"), "a:1/x/y"),
        (Place("[::1]:1", "/m"), "[::1]:1/m"),
    ],
)
def test_metrics_place_of_the_file(expected, text):
    assert metrics_place(text) == expected


def test_port_of_its_own_is_on_the_host_of_an_address_with_brackets():
    assert Place("[::1]:8002", "/metrics") in places(Target("c", "[::1]:8000", engine="triton-trtllm"), None)


@pytest.mark.parametrize(
    ("healthy", "found", "pages"),
    [
        (True, "/health", {"e:1/health": 200}),
        (False, "/health", {"e:1/health": 503}),
        (True, "/v2/health/ready", {"e:1/health": 400, "e:1/v2/health/ready": 200}),
        (True, "/-/healthz", {"e:1/-/healthz": 200}),
        (None, None, {}),
    ],
)
async def test_health_page_is_found(healthy, found, pages):
    health = Health(Server(**pages), "e:1", None)
    assert (await health.ask(), health.path) == (healthy, found)


async def test_health_page_that_was_found_is_the_only_one_asked_until_it_goes():
    server = Server(**{"e:1/health": 405, "e:1/v2/health/ready": 200})
    health = Health(server, "e:1", None)
    await health.ask()
    server.asked.clear()
    assert await health.ask() is True
    assert server.asked == ["e:1/v2/health/ready"]
    server.pages = {"e:1/health": 200}
    assert [await health.ask(), await health.ask()] == [None, True]


async def test_pinned_engine_is_asked_for_its_own_health_first():
    server = Server(**{"e:1/v2/health/ready": 200})
    await Health(server, "e:1", TRITON_TRTLLM).ask()
    assert server.asked == ["e:1/v2/health/ready"]
