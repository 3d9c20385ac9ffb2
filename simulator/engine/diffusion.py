"""A diffusion engine: first come, first served, a small batch, one denoising step of every job at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from simulator.engine.request import Event, EventKind, FinishReason


@dataclass(frozen=True, slots=True)
class DiffusionParams:
    """What a denoising step costs: base + pixels of all jobs in the batch / rate, divided by `speed`.

    The defaults give 3.3 s for 30 steps of one megapixel. `max_batch` jobs run at once. ValueError below 1.
    """

    max_batch: int = 2
    base_seconds: float = 0.02
    pixels_per_second: float = 11_650_000.0
    speed: float = 1.0

    def __post_init__(self) -> None:
        if self.max_batch < 1 or self.speed <= 0:
            raise ValueError("max_batch starts at 1, speed is above 0")


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """`images` pictures of `pixels` each in `steps` denoising steps."""

    pixels: int
    steps: int = 30
    images: int = 1


class ImageJob:
    """One request in the engine. Times are simulated seconds, None until they happen."""

    __slots__ = ("arrived_at", "finish_reason", "finished_at", "request", "scheduled_at", "steps_left")

    def __init__(self, request: ImageRequest, arrived_at: float) -> None:
        self.request, self.arrived_at = request, arrived_at
        self.steps_left = request.steps
        self.scheduled_at: float | None = None
        self.finished_at: float | None = None
        self.finish_reason: FinishReason | None = None


class DiffusionEngine:
    """One diffusion replica in simulated time, with the calls of `Engine`."""

    def __init__(self, params: DiffusionParams) -> None:
        self.params = params
        self.now = 0.0
        self._waiting: deque[ImageJob] = deque()
        self._running: list[ImageJob] = []
        self._stepping = False
        self._next: float | None = None

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Jobs in the batch."""
        return len(self._running)

    def next_event_time(self) -> float | None:
        """When the step under way ends, or None when there is nothing to do."""
        return self._next

    def submit(self, request: ImageRequest, now: float) -> ImageJob:
        """Queue a job. ValueError when `now` lies past an unprocessed step: `advance(now)` comes first."""
        if now < self.now or (self._next is not None and self._next < now):
            raise ValueError("advance(now) comes before submit(now)")
        if min(request.pixels, request.steps, request.images) < 1:
            raise ValueError("pixels, steps and images start at 1")
        job = ImageJob(request, now)
        self._waiting.append(job)
        if self._next is None:
            self._next = now
        return job

    def abort(self, job: ImageJob, now: float) -> None:
        """Drop a job; nothing happens to one that has ended."""
        if job.finished_at is not None:
            return
        if job in self._running:
            self._running.remove(job)
        else:
            self._waiting.remove(job)
        job.finished_at, job.finish_reason = now, FinishReason.ABORT

    def advance(self, to: float) -> list[Event[ImageJob]]:
        """Run every step that ends by `to`; the jobs that finished, in order of time."""
        events: list[Event[ImageJob]] = []
        while self._next is not None and self._next <= to:
            at = self._next
            if self._stepping:
                self._finish_step(at, events)
            self._start_step(at)
        self.now = max(self.now, to)
        return events

    def _start_step(self, at: float) -> None:
        while self._waiting and len(self._running) < self.params.max_batch:
            job = self._waiting.popleft()
            job.scheduled_at = at
            self._running.append(job)
        self._stepping = bool(self._running)
        pixels = sum(job.request.pixels * job.request.images for job in self._running)
        seconds = (self.params.base_seconds + pixels / self.params.pixels_per_second) / self.params.speed
        self._next = at + seconds if self._stepping else None

    def _finish_step(self, at: float, events: list[Event[ImageJob]]) -> None:
        for job in self._running:
            job.steps_left -= 1
            if not job.steps_left:
                job.finished_at, job.finish_reason = at, FinishReason.STOP
                events.append(Event(EventKind.FINISHED, at, job))
        self._running = [job for job in self._running if job.steps_left]
