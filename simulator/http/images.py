"""/v1/images/generations on a diffusion engine. Pictures are real PNG files of one colour."""

from __future__ import annotations

import re
import struct
import time
import zlib
from base64 import b64encode
from functools import lru_cache

from aiohttp import web

from simulator.engine import DiffusionEngine, DiffusionParams, Event, ImageJob, ImageRequest
from simulator.http.bodies import ImageBody, body_of
from simulator.http.driver import Driver
from simulator.http.errors import bad_request, json_response, unknown_model
from simulator.http.omni_stats import OmniStats

_SIZE = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})")
_DEFAULT_SIZE = "1024x1024"
_DEFAULT_STEPS = 30


class Diffusion:
    """Engine, clock and statistics of one diffusion replica."""

    def __init__(self, params: DiffusionParams, models: list[str], time_scale: float) -> None:
        self.models = models
        self.engine = DiffusionEngine(params)
        self.stats = OmniStats()
        self.driver: Driver[ImageJob] = Driver(self.engine, time_scale, self._observe)

    def _observe(self, event: Event[ImageJob]) -> None:
        self.stats.observe(event.subject)


class ImagesApi:
    """Image generation."""

    def __init__(self, diffusion: Diffusion) -> None:
        self._diffusion = diffusion

    async def create(self, request: web.Request) -> web.Response:
        """POST /v1/images/generations: `n`, `size` (WxH), `num_inference_steps`; answers b64_json."""
        body = await body_of(request, ImageBody)
        if body.model is not None and body.model not in self._diffusion.models:
            raise unknown_model(body.model)
        if body.response_format not in (None, "b64_json"):
            raise bad_request("response_format must be b64_json.", "response_format")
        width, height = _size(body.size)
        images = body.n or 1
        await self._run(ImageRequest(width * height, body.num_inference_steps or _DEFAULT_STEPS, images))
        seed = zlib.crc32(body.prompt.encode("utf-8", "surrogatepass"))
        data = [{"b64_json": _picture(width, height, seed + index)} for index in range(images)]
        return json_response({"created": int(time.time()), "data": data, "output_format": "png"})

    async def _run(self, wanted: ImageRequest) -> None:
        driver, engine = self._diffusion.driver, self._diffusion.engine
        ticket = driver.submit(lambda now: [engine.submit(wanted, now)])
        try:
            await ticket.finished()
        finally:
            driver.close(ticket)


def _size(size: str | None) -> tuple[int, int]:
    wanted = size if size not in (None, "auto") else _DEFAULT_SIZE
    match = _SIZE.fullmatch(wanted or _DEFAULT_SIZE)
    if match is None:
        raise bad_request("size must be WIDTHxHEIGHT, each from 1 to 9999.", "size")
    return int(match[1]), int(match[2])


@lru_cache(maxsize=64)
def _picture(width: int, height: int, seed: int) -> str:
    return b64encode(png(width, height, seed % 2**24)).decode()


def png(width: int, height: int, colour: int) -> bytes:
    """A PNG file of one colour (0xRRGGBB), with a palette of one entry: a bit a pixel before compression."""
    header = struct.pack(">IIBBBBB", width, height, 1, 3, 0, 0, 0)
    rows = bytes(1 + -(-width // 8)) * height
    chunks = (
        (b"IHDR", header),
        (b"PLTE", colour.to_bytes(3, "big")),
        (b"IDAT", zlib.compress(rows, 1)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
