"""Forms with parts, as audio and image clients write them."""

from __future__ import annotations

import pytest

from ext_proc.parse.multipart import MOST_PARTS, read_form
from tests.ext_proc.parse.reading import read, refusal, told
from tidegate.domain.refusal import Refusal
from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import Media

TRANSCRIBE = "/v1/audio/transcriptions"


def field(name: str, value: str) -> bytes:
    return f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode()


def file(name: str, filename: str, content: bytes = b"RIFF") -> bytes:
    header = f'Content-Disposition: form-data; name="{name}"; filename="{filename}"\r\nContent-Type: audio/wav\r\n\r\n'
    return header.encode() + content


def form(*parts: bytes, boundary: str = "B7") -> bytes:
    line = b"--" + boundary.encode()
    return b"".join(line + b"\r\n" + part + b"\r\n" for part in parts) + line + b"--\r\n"


def read_parts(*parts: bytes, path: str = TRANSCRIBE) -> RequestInfo:
    return read(form(*parts), path, content_type="multipart/form-data; boundary=B7")


def refused(body: bytes, content_type: str = "multipart/form-data; boundary=B7") -> tuple[int, str]:
    return refusal(body, TRANSCRIBE, content_type=content_type)


def test_transcription_is_read_around_its_file() -> None:
    info = read_parts(file("file", "a.wav", b"\r\n--B8\r\n" * 1000), field("model", "whisper"), field("stream", "true"))
    assert (info.model, info.stream, info.media, info.kind.value) == ("whisper", True, {Media.AUDIO: 1}, "audio")


def test_image_edit_is_read() -> None:
    parts = [file("image[]", "a.png"), file("image[]", "b.png"), field("prompt", "a möwe"), field("n", "2")]
    info = read_parts(
        *parts, field("size", "512x768"), field("model", "edit"), field("user", "u"), path="/v1/images/edits"
    )
    assert told(info)["image"] == [512, 768, None, 2]
    assert (info.prompt_chars, info.media, info.user) == (6, {Media.IMAGE: 2}, "u")


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data; boundary=B7",
        'multipart/form-data; boundary="B7"',
        "Multipart/Form-Data;BOUNDARY=B7;charset=utf-8",
        'multipart/form-data; charset="a;boundary=no"; boundary = "B\\7"',
        "multipart/form-data; boundary=B7; boundary=B8",
    ],
)
def test_boundary_is_found(content_type: str) -> None:
    assert read(form(field("model", "w")), TRANSCRIBE, content_type=content_type).model == "w"


@pytest.mark.parametrize(
    "body",
    [
        form(field("model", "w")).replace(b"\r\n", b"\n"),
        b"preamble --B7\r\n" + form(field("model", "w")) + b"epilogue\r\n--B7--",
        form(field("model", "w"))[:-2],
        form(field("model", "w")).replace(b"--B7\r\n", b"--B7 \t\r\n"),
        form(file("file", "--B7.wav", b"x\r\n--B7x\r\n"), field("model", "w")),
        form(file("file", 'a"; name=\\"model', b""), field("model", "w")),
        form(b"content-disposition:form-data;name=model\r\n\r\nw"),
        form(b'Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name="model"\r\n\r\nw'),
        form(field("unknown", "\r\n"), b"\r\nno headers", field("model", "w"), field("modell", "v")),
    ],
    ids=[
        "lf",
        "preamble",
        "no-last-break",
        "padding",
        "lookalike",
        "quoted-name",
        "bare-name",
        "two-headers",
        "others",
    ],
)
def test_model_is_read_from_forms_of_many_makes(body: bytes) -> None:
    assert read(body, TRANSCRIBE, content_type="multipart/form-data; boundary=B7").model == "w"


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary=""',
        "multipart/form-data; boundary=" + "B" * 300,
    ],
    ids=["none", "empty", "quoted-empty", "long"],
)
def test_form_without_a_boundary_is_refused(content_type: str) -> None:
    assert refused(form(field("model", "w")), content_type) == (400, "invalid-request")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"--B7",
        b"--B7\r\n",
        form(field("model", "w"))[:-6],
        form(field("model", "w"))[:40],
        form(field("model", "w"), boundary="B8"),
        form(b"no blank line"),
        form(b"X: " + b"y" * 10_000 + b"\r\n\r\nz"),
        form(field("model", "w"), field("model", "w")),
        form(field("model", "w\n")),
        form(field("model", "w").replace(b"w", b"\xff")),
        form(*[field("a", "b")] * MOST_PARTS, field("model", "w")),
        b"--B7\r\n" + field("file", "\r\n--B7x" * 1000),
    ],
    ids=[
        "empty",
        "json",
        "line",
        "open",
        "no-end",
        "cut",
        "other",
        "no-blank",
        "headers",
        "twice",
        "control",
        "latin1",
        "parts",
        "lookalikes",
    ],
)
def test_broken_form_is_refused(body: bytes) -> None:
    assert refused(body) == (400, "invalid-request")


def test_files_are_not_copied() -> None:
    import tracemalloc

    body = form(file("file", "a.wav", b"\0" * (8 << 20)), field("model", "w"))
    tracemalloc.start()
    try:
        assert read(body, TRANSCRIBE, content_type="multipart/form-data; boundary=B7").model == "w"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_values_are_offsets_into_the_body() -> None:
    body = form(field("model", "w"), field("prompt", ""), field("model2", "x\r\ny"))
    spans = read_form(body, "multipart/form-data; boundary=B7").spans
    assert {name: body[start:end] for name, (start, end) in spans.items()} == {
        "model": b"w",
        "prompt": b"",
        "model2": b"x\r\ny",
    }


def test_value_that_is_not_utf8_is_refused_when_it_is_read() -> None:
    read_back = read_form(form(field("prompt", "x").replace(b"x", b"\xff")), "multipart/form-data; boundary=B7")
    with pytest.raises(Refusal, match="UTF-8"):
        read_back.value("prompt")
    assert read_back.value("absent") is None
