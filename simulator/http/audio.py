"""/v1/audio/transcriptions (multipart) and /v1/audio/speech (silence, as a WAV file)."""

from __future__ import annotations

import io
import wave

from aiohttp import web

from simulator.http.bodies import SpeechBody, body_of
from simulator.http.errors import bad_request, json_response
from simulator.http.llm import Ask, Llm
from simulator.http.text import Prompt

_BYTES_PER_TOKEN = 640  # 20 ms of 16-bit sound at 16 kHz
_SECONDS_PER_TOKEN = 0.2
_RATE = 8000


class AudioApi:
    """Sound in, text out, and the other way."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm

    async def transcribe(self, request: web.Request) -> web.Response:
        """POST /v1/audio/transcriptions: form fields `model`, `file`, `response_format` (json or text)."""
        form = await request.post()
        model, file, wanted = form.get("model"), form.get("file"), form.get("response_format", "json")
        self._llm.check_model(model if isinstance(model, str) else None)
        if not isinstance(file, web.FileField):
            raise bad_request("file is required.", "file")
        sound = file.file.read()
        most = self._llm.params.max_model_len // 2
        prompt = Prompt.of_media(sound, max(1, min(len(sound) // _BYTES_PER_TOKEN, most)))
        async with self._llm.generate(Ask([prompt])) as generation:
            await generation.finished()
        text = generation.texts[0]
        return web.Response(text=text) if wanted == "text" else json_response({"text": text})

    async def speak(self, request: web.Request) -> web.Response:
        """POST /v1/audio/speech: as many seconds of silence as the text has words, roughly."""
        body = await body_of(request, SpeechBody)
        self._llm.check_model(body.model)
        prompt = Prompt.of_text(body.input)
        async with self._llm.generate(Ask([prompt], max_tokens=prompt.tokens)) as generation:
            await generation.finished()
        return web.Response(body=_silence(prompt.tokens * _SECONDS_PER_TOKEN), content_type="audio/wav")


def _silence(seconds: float) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(_RATE)
        sound.writeframes(b"\x80" * int(seconds * _RATE))
    return buffer.getvalue()
