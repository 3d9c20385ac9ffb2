"""One engine watched: what a scrape, and what a failed one, does to its sample."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from metrics_agent.cadence import next_scrape
from metrics_agent.instruments import Instruments
from metrics_agent.scrape.effort import MOST_SHARE, Effort
from metrics_agent.scrape.exposition import MOST_SERIES
from metrics_agent.scrape.http import Page, ScrapeFailedError
from metrics_agent.scrape.life import Failure
from metrics_agent.scrape.watcher import EngineWatcher
from metrics_agent.targets import Target
from tests.conftest import until
from tidegate.domain.sample import Status


class Engine:
    """A PageSource that a test scripts. `metrics` is a page, a status or a Failure."""

    def __init__(self):
        self.health = 200
        self.metrics = body()
        self.asked = []

    async def get(self, address, path):
        self.asked.append(path)
        answer = self.health if path == "/health" else self.metrics
        if isinstance(answer, Failure):
            raise ScrapeFailedError(answer)
        return Page(answer, b"") if isinstance(answer, int) else Page(200, answer)


class Time:
    def __init__(self):
        self.seconds = 1000.0

    def ms(self):
        return int(self.seconds * 1000)

    def mono(self):
        return self.seconds


def body(running=2, waiting=1, kv=0.5, tokens=0, fast=0, slow=0, rejected=0, finished=0):
    return (
        f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n"
        f"vllm:kv_cache_usage_perc {kv}\nvllm:generation_tokens_total {tokens}\n"
        f'vllm:e2e_request_latency_seconds_bucket{{le="1.0"}} {fast}\n'
        f'vllm:e2e_request_latency_seconds_bucket{{le="2.0"}} {fast + slow}\n'
        f'vllm:e2e_request_latency_seconds_bucket{{le="+Inf"}} {fast + slow}\n'
        f'vllm:time_to_first_token_seconds_bucket{{le="0.5"}} {fast + slow}\n'
        f'vllm:time_to_first_token_seconds_bucket{{le="+Inf"}} {fast + slow}\n'
        'vllm:lora_requests_info{max_lora="2",running_lora_adapters="a",waiting_lora_adapters="b"} 9.0\n'
        f"vllm:admission_rejections_total {rejected}\n"
        f'vllm:request_success_total{{finished_reason="stop"}} {finished}\n'
        f"vllm:prefix_cache_queries_total {4 * tokens}\nvllm:prefix_cache_hits_total {tokens}\n"
    ).encode()


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def watcher(engine, time, registry):
    return EngineWatcher(
        Target("c", "e:1"),
        "n",
        engine,
        Instruments(registry),
        interval_seconds=0.1,
        clock=time.ms,
        random=lambda: 0.5,
        monotonic=time.mono,
    )


async def test_sample_says_what_the_page_says(watcher, time):
    await watcher.scrape()
    s = watcher.latest
    assert (s.status, s.running, s.waiting, s.kv_used_ratio) == (Status.READY, 2, 1, 0.5)
    assert (s.cluster, s.address, s.node, s.sampled_at_ms) == ("c", "e:1", "n", time.ms())
    assert (s.latency_p99_ms, s.tokens_per_second, s.prefix_hit_ratio) == (None, None, None)


async def test_rates_and_quantiles_come_from_differences(watcher, engine, time):
    await watcher.scrape()
    time.seconds += 2
    engine.metrics = body(tokens=100, fast=0, slow=10)
    await watcher.scrape()
    s = watcher.latest
    assert s.tokens_per_second == 50.0
    assert s.latency_p99_ms == pytest.approx(1990.0)
    assert s.ttft_p99_ms == pytest.approx(495.0)
    assert s.prefix_hit_ratio == 0.25


async def test_sample_names_adapters_and_counts_rejections(watcher, engine):
    engine.metrics = body(rejected=7)
    await watcher.scrape()
    s = watcher.latest
    assert (s.loras, s.max_loras, s.admission_rejections_total) == (("a", "b"), 2, 7)


async def test_sample_counts_what_finished_and_its_tokens(watcher, engine):
    engine.metrics = body(tokens=500, finished=4)
    await watcher.scrape()
    assert (watcher.latest.generation_tokens_total, watcher.latest.requests_finished_total) == (500, 4)


async def test_hit_ratio_is_since_the_start_until_prompts_come(watcher, engine, time):
    engine.metrics = body(tokens=1000)
    await watcher.scrape()
    assert watcher.latest.prefix_hit_ratio == 0.25
    engine.metrics = body(tokens=1000) + b"vllm:gpu_prefix_cache_hit_rate 0.9\n"
    time.seconds += 1
    await watcher.scrape()
    assert watcher.latest.prefix_hit_ratio == 0.25


@pytest.mark.parametrize(("expected", "rate"), [(0.4, "0.4"), (None, "-1.0")])
async def test_hit_ratio_is_what_the_engine_says_where_it_counts_nothing(watcher, engine, expected, rate):
    engine.metrics = f"vllm:num_requests_running 1\nvllm:gpu_prefix_cache_hit_rate {rate}\n".encode()
    await watcher.scrape()
    assert watcher.latest.prefix_hit_ratio == expected


async def test_restarted_engine_counts_what_it_shows(watcher, engine, time):
    for tokens in (1_000_000, 1_000_100, 50):
        engine.metrics = body(tokens=tokens)
        await watcher.scrape()
        time.seconds += 1
    assert watcher.latest.tokens_per_second == (100 + 50) / 2


async def test_seq_grows_also_across_restarts(watcher, time):
    await watcher.scrape()
    first = watcher.latest.seq
    await watcher.scrape()
    assert watcher.latest.seq > first > 0


@pytest.mark.parametrize("failure", [Failure.TIMEOUT, Failure.BROKEN, Failure.TOO_LARGE, 500, 503])
async def test_one_failed_scrape_ages_the_sample_and_the_second_says_unreachable(watcher, engine, time, failure):
    await watcher.scrape()
    before = watcher.latest
    time.seconds += 1
    engine.metrics = failure
    await watcher.scrape()
    assert watcher.latest == before
    time.seconds += 1
    await watcher.scrape()
    s = watcher.latest
    assert (s.status, s.sampled_at_ms) == (Status.UNREACHABLE, time.ms())
    assert (s.running, s.waiting, s.kv_used_ratio) == (None, None, None)


async def test_refused_connection_is_unreachable_at_once(watcher, engine):
    engine.metrics = engine.health = Failure.REFUSED
    await watcher.scrape()
    assert watcher.latest.status is Status.UNREACHABLE


async def test_engine_that_answers_503_for_health_is_loading(watcher, engine):
    engine.health = 503
    await watcher.scrape()
    assert watcher.latest.status is Status.LOADING
    engine.health = 200
    await watcher.scrape()
    assert watcher.latest.status is Status.READY


async def test_nothing_is_said_of_an_engine_before_its_first_answer(watcher, engine):
    engine.metrics = engine.health = Failure.TIMEOUT
    await watcher.scrape()
    assert watcher.latest is None


@pytest.mark.parametrize("answer", [b"", b"<html></html>", 404])
async def test_page_that_says_nothing_is_reachable_and_unknown(watcher, engine, answer):
    engine.metrics = answer
    await watcher.scrape()
    assert (watcher.latest.status, watcher.latest.running) == (Status.READY, None)


async def test_health_is_asked_once_a_second_while_it_is_good(watcher, engine, time):
    for _ in range(20):
        await watcher.scrape()
        time.seconds += 0.1
    assert engine.asked.count("/health") == 2
    assert engine.asked.count("/metrics") == 20


async def test_returning_engine_is_asked_for_its_health_first(watcher, engine, time):
    await watcher.scrape()
    engine.metrics = Failure.REFUSED
    await watcher.scrape()
    engine.metrics, engine.health = body(), 503
    await watcher.scrape()
    assert watcher.latest.status is Status.LOADING


async def test_sum_beyond_every_number_is_unknown(watcher, engine):
    engine.metrics = b'vllm:num_requests_running{engine="0"} 1e308\nvllm:num_requests_running{engine="1"} 1e308\n'
    await watcher.scrape()
    assert (watcher.latest.status, watcher.latest.running) == (Status.READY, None)


async def test_watcher_outlives_whatever_reading_raises_and_says_unreachable(watcher, time, registry, monkeypatch):
    def broken(*_, **__):
        raise RecursionError("deep")

    await watcher.scrape()
    before = watcher.latest
    with monkeypatch.context() as patched:
        patched.setattr("metrics_agent.scrape.places.read_page", broken)
        time.seconds += 1
        await watcher.scrape()
        assert watcher.latest == before
        await watcher.scrape()
    assert (watcher.latest.status, watcher.latest.sampled_at_ms) == (Status.UNREACHABLE, time.ms())
    labels = {"endpoint": "e:1", "cause": "unreadable"}
    assert registry.get_sample_value("tidegate_agent_scrape_failures_total", labels) == 2
    await watcher.scrape()
    assert watcher.latest.status is Status.READY


async def test_watcher_outlives_what_its_windows_raise(watcher, monkeypatch):
    def broken(*_):
        raise OverflowError

    monkeypatch.setattr(watcher._latency, "observe", broken)
    for _ in range(3):
        await watcher.scrape()
    assert watcher.latest.status is Status.UNREACHABLE


async def test_families_that_are_too_long_are_unknown_and_counted(watcher, engine, registry):
    lines = (f'vllm:kv_cache_usage_perc{{engine="{n}"}} 0.5\n' for n in range(MOST_SERIES))
    engine.metrics = body() + "".join(lines).encode()
    await watcher.scrape()
    assert (watcher.latest.running, watcher.latest.kv_used_ratio) == (2, None)
    assert registry.get_sample_value("tidegate_agent_unread_families_total", {"endpoint": "e:1"}) == 1


async def test_engine_whose_page_costs_much_is_scraped_rarely_and_others_are_not(engine, time):
    seconds = [0.0]

    def dear():
        seconds[0] += 0.1
        return seconds[0]

    def one(pages, clock):
        return EngineWatcher(
            Target("c", "e:1"),
            "n",
            pages,
            Instruments(CollectorRegistry()),
            interval_seconds=0.01,
            clock=time.ms,
            random=lambda: 0.5,
            effort=Effort(clock),
        )

    other = Engine()
    tasks = [asyncio.create_task(w.run()) for w in (one(engine, dear), one(other, lambda: 0.0))]
    await until(lambda: other.asked.count("/metrics") >= 20)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert 1 <= engine.asked.count("/metrics") < other.asked.count("/metrics") / 4


def test_effort_asks_for_rest_once_and_by_its_share():
    times = iter([1.0, 1.05, 2.0, 2.01])
    effort = Effort(lambda: next(times))
    for _ in range(2):
        with effort.spent():
            pass
    assert effort.rest_seconds() == pytest.approx(0.06 / MOST_SHARE)
    assert effort.rest_seconds() == 0


@pytest.mark.parametrize(("expected", "rest"), [(0.1, 0.0), (0.1, 0.09), (0.3, 0.25), (2.0, 1.95)])
def test_rest_moves_the_next_scrape_to_a_later_slot(expected, rest):
    assert next_scrape(10.0, 0.1, 0, lambda: 0.0, rest) - 10.0 == pytest.approx(expected)


def test_scrapes_keep_to_their_slots():
    assert next_scrape(10.0, 0.1, 0, lambda: 0.0) == pytest.approx(10.1)
    assert next_scrape(10.05, 0.1, 0, lambda: 0.5) == pytest.approx(10.105)


@pytest.mark.parametrize(("expected", "failures"), [(0.1, 0), (0.2, 1), (0.4, 2), (0.8, 3), (1.0, 4), (1.0, 1000)])
def test_failures_double_the_wait_up_to_a_second(expected, failures):
    assert next_scrape(10.0, 0.1, failures, lambda: 0.0) - 10.0 == pytest.approx(expected, abs=0.1)


def test_long_interval_is_not_shortened_by_failures():
    assert next_scrape(10.0, 5.0, 3, lambda: 0.0) == pytest.approx(15.0)
