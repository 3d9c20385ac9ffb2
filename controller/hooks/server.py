"""The hooks: `POST /hooks/alertmanager`, `/hooks/grafana`, `/hooks/annotations`, and DELETE of an annotation.

What a request says is matched with the rules at once, so that whoever sent it hears what is wrong with it, and left in
the inbox for the controller that leads. A request that is refused changes nothing and writes one line of the log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import structlog
from aiohttp import web

from controller.hooks.access import may_call
from controller.hooks.connections import Guarded, HttpLog
from controller.hooks.instruments import STATUS, HookInstruments, Result
from controller.hooks.limits import Bucket
from controller.hooks.payload import Alert, Garbage, TooMany, annotation_id, read_alerts, read_annotation
from tidegate.domain.actions.notice import MOST_WAITING, Notice, label_hash
from tidegate.domain.actions.rules import Order, Rules, Unfit
from tidegate.domain.errors import ConfigError, StoreError
from tidegate.domain.topology import split_listen
from tidegate.store.ports import Inbox, TimeSource

MOST_BYTES: Final = 1 << 20
BURST, PER_SECOND = 100, 10.0
BODY_SECONDS: Final = 10.0
MOST_TOLD: Final = 20
_SHOWN: Final = 200

log = structlog.get_logger("controller.hooks")


class HookStore(Inbox, TimeSource, Protocol):
    """Where notices are left, and what time it is."""


class Refused(Exception):  # noqa: N818 - what the request is
    """A request that is answered with `why` and changes nothing."""

    def __init__(self, result: Result, why: str, retry_after_seconds: int | None = None) -> None:
        super().__init__(why)
        self.result, self.why, self.retry_after_seconds = result, why, retry_after_seconds


@dataclass(frozen=True, slots=True)
class Heard:
    """What of a request was taken in, and why the rest was not."""

    notices: Sequence[Notice]
    refused: Sequence[Unfit] = ()


class Hooks:
    """Answers hooks. `token` says what callers have to know (None: nothing). Belongs to one event loop."""

    def __init__(
        self,
        rules: Rules,
        store: HookStore,
        instruments: HookInstruments,
        *,
        token: Callable[[], str | None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules, self._store, self._instruments, self._token = rules, store, instruments, token
        self._calls, self._wrong = (Bucket(BURST, PER_SECOND, monotonic) for _ in range(2))

    def app(self) -> web.Application:
        """The application to serve."""
        app = web.Application(client_max_size=MOST_BYTES)
        for hook in ("alertmanager", "grafana"):
            app.router.add_post(f"/hooks/{hook}", partial(self._answer, hook, self._alerts))
        app.router.add_post("/hooks/annotations", partial(self._answer, "annotations", self._annotation))
        app.router.add_delete("/hooks/annotations/{id}", partial(self._answer, "annotations", self._forget))
        app.router.add_route("*", r"/{path:[\s\S]*}", partial(self._answer, "none", _no_such_hook))
        return app

    def is_no_http(self) -> None:
        """Count a request that could not be read."""
        self._instruments.requests.labels(hook="none", result=Result.GARBAGE).inc()

    async def _answer(
        self, hook: str, hear: Callable[[web.Request], Awaitable[Heard]], request: web.Request
    ) -> web.Response:
        try:
            heard = await self._heard(hear, request)
        except Refused as refused:
            return self._refuse(hook, refused, request)
        result = Result.PARTLY if heard.refused else Result.ACCEPTED
        told = [str(one) for one in heard.refused]
        if told:
            shown = [one[:_SHOWN] for one in told[:MOST_TOLD]]
            log.warning("a hook accepted a part of what it was told", hook=hook, refused=shown)
        self._instruments.requests.labels(hook=hook, result=result).inc()
        return web.json_response({"accepted": len(heard.notices), "refused": told[:MOST_TOLD]})

    async def _heard(self, hear: Callable[[web.Request], Awaitable[Heard]], request: web.Request) -> Heard:
        """Check who asks and how often, read, and leave the notices in the inbox. Raises Refused."""
        known = may_call(request.headers.get("authorization"), self._token())
        if seconds := (self._calls if known else self._wrong).take():
            raise Refused(Result.RATE, "too many requests", seconds)
        if not known:
            raise Refused(Result.UNAUTHORIZED, "the token is wrong or missing")
        try:
            heard = await hear(request)
            if not await self._store.deliver(heard.notices, most=MOST_WAITING):
                raise Refused(Result.STORE, "too many notices wait for the controller that leads", 5)
        except TooMany as exc:
            raise Refused(Result.SIZE, str(exc)) from exc
        except Garbage as exc:
            raise Refused(Result.GARBAGE, str(exc)) from exc
        except StoreError as exc:
            raise Refused(Result.STORE, "Redis does not answer", 5) from exc
        return heard

    def _refuse(self, hook: str, refused: Refused, request: web.Request) -> web.Response:
        why = refused.why[:_SHOWN]
        log.warning("a hook refused a request", hook=hook, result=str(refused.result), why=why, peer=request.remote)
        self._instruments.requests.labels(hook=hook, result=refused.result).inc()
        headers = {} if refused.retry_after_seconds is None else {"retry-after": str(refused.retry_after_seconds)}
        if refused.result is Result.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        return web.json_response({"error": refused.why}, status=STATUS[refused.result], headers=headers)

    async def _alerts(self, request: web.Request) -> Heard:
        body, now_ms = await _body(request), await self._now_ms()
        notices, refused = list[Notice](), list[Unfit]()
        for alert in read_alerts(body, now_ms):
            try:
                orders = self._rules.of_alert(alert.name, alert.labels)
            except Unfit as unfit:
                refused.append(unfit)
            else:
                notices.append(_notice(alert, orders, now_ms))
        _refuse_all_unfit(notices, refused)
        return Heard(notices, refused)

    async def _annotation(self, request: web.Request) -> Heard:
        body, now_ms = await _body(request), await self._now_ms()
        said = read_annotation(body, now_ms)
        try:
            orders = self._rules.of_annotation(said.tags, said.labels)
        except Unfit as unfit:
            raise Refused(Result(unfit.reason), str(unfit)) from unfit
        notice = Notice(
            key=f"annotation:{said.ident}",
            cause=f"annotation {said.ident}",
            version_ms=said.updated_ms,
            first_ms=now_ms,
            last_ms=now_ms,
            from_ms=said.from_ms,
            until_ms=said.until_ms,
            orders=orders,
        )
        return Heard([notice])

    async def _forget(self, request: web.Request) -> Heard:
        ident, now_ms = annotation_id(request.match_info["id"]), await self._now_ms()
        key = f"annotation:{ident}"
        over = Notice(key=key, cause=f"annotation {ident}", version_ms=0, first_ms=now_ms, last_ms=now_ms, ended_ms=0)
        return Heard([over])

    async def _now_ms(self) -> int:
        return int(await self._store.time_ms())


async def _no_such_hook(request: web.Request) -> Heard:
    raise Refused(Result.PATH, f"there is no hook {request.method} {request.path}")


async def _body(request: web.Request) -> bytes:
    """Raises Refused: too long, or too slow."""
    if (request.content_length or 0) > MOST_BYTES:
        raise Refused(Result.SIZE, f"more than {MOST_BYTES} bytes")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(Result.GARBAGE, "the body is compressed; send it as it is")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as exc:
        raise Refused(Result.SIZE, f"more than {MOST_BYTES} bytes") from exc
    except web.RequestPayloadError as exc:
        raise Refused(Result.GARBAGE, "the body is not what its headers say") from exc
    except ConnectionError as exc:
        raise Refused(Result.GARBAGE, "the body ended early") from exc
    except TimeoutError as exc:
        raise Refused(Result.SLOW, f"the body did not come within {BODY_SECONDS:g} s") from exc


def _notice(alert: Alert, orders: tuple[Order, ...], now_ms: int) -> Notice:
    return Notice(
        key=f"alert:{label_hash(alert.labels)}",
        cause=f"alert {alert.name}",
        version_ms=alert.starts_ms,
        first_ms=now_ms,
        last_ms=now_ms,
        ended_ms=alert.ended_ms,
        end_heard_ms=None if alert.ended_ms is None else now_ms,
        orders=orders,
    )


def _refuse_all_unfit(notices: Sequence[Notice], refused: Sequence[Unfit]) -> None:
    """Raise Refused where nothing is left; a label that is wrong says more than an alert that nobody wants."""
    if notices or not refused:
        return
    worst = next((one for one in refused if one.reason != Result.UNKNOWN), refused[0])
    raise Refused(Result(worst.reason), _joined(map(str, refused)))


def _joined(sentences: Iterable[str]) -> str:
    told = list(dict.fromkeys(sentences))
    return "; ".join(told[:MOST_TOLD]) + (f"; and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else "")


class HooksServer:
    """Hooks on an address."""

    def __init__(self, hooks: Hooks) -> None:
        options: dict[str, Any] = {"access_log": None, "logger": HttpLog(hooks.is_no_http)}
        options["auto_decompress"] = False  # a small body may be hundreds of megabytes, and who waits are Envoys
        self._runner = web.AppRunner(hooks.app(), handle_signals=False, **options)
        self._server: asyncio.Server | None = None

    async def start(self, listen: str) -> str:
        """Bind `host:port` (port 0: any free one); the bound address. Raises ConfigError."""
        await self._runner.setup()
        made, open_ = self._runner.server, dict[Guarded, None]()
        if made is None:
            raise RuntimeError("the runner has no server after its setup")
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: Guarded(made(), open_), *split_listen(listen))
        except (OSError, ValueError) as exc:
            raise ConfigError([f"--hooks-listen {listen} cannot be bound: {exc}"]) from exc
        bound: Any = self._server.sockets[0].getsockname()
        return f"{bound[0]}:{bound[1]}"

    async def stop(self) -> None:
        """Release the port."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()
