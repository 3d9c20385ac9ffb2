"""The diffusion engine in simulated time."""

from __future__ import annotations

import pytest

from simulator.engine import DiffusionEngine, DiffusionParams, FinishReason, ImageRequest

MEGAPIXEL = 1024 * 1024


def test_a_job_takes_steps_times_pixels() -> None:
    engine = DiffusionEngine(DiffusionParams(base_seconds=0.0, pixels_per_second=MEGAPIXEL))
    job = engine.submit(ImageRequest(MEGAPIXEL // 2, steps=10, images=4), 0.0)
    engine.advance(100.0)
    assert pytest.approx(20.0) == job.finished_at


def test_jobs_beyond_the_batch_wait_in_order() -> None:
    engine = DiffusionEngine(DiffusionParams(max_batch=1, base_seconds=0.5, pixels_per_second=float("inf")))
    jobs = [engine.submit(ImageRequest(1, steps=2), 0.0) for _ in range(3)]
    engine.advance(0.1)
    assert (engine.running, engine.waiting) == (1, 2)
    events = engine.advance(10.0)
    assert [(1.0, jobs[0]), (2.0, jobs[1]), (3.0, jobs[2])] == [(e.at, e.subject) for e in events]


def test_aborted_jobs_leave_the_queue_and_the_batch() -> None:
    engine = DiffusionEngine(DiffusionParams(max_batch=1))
    running, waiting = (engine.submit(ImageRequest(MEGAPIXEL), 0.0) for _ in range(2))
    engine.advance(0.01)
    for job in (waiting, running):
        engine.abort(job, 0.01)
    assert (engine.running, engine.waiting) == (0, 0)
    assert engine.advance(100.0) == []
    assert (running.finish_reason, engine.next_event_time()) == (FinishReason.ABORT, None)
