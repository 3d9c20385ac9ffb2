"""Flags and environment names, derived from a settings class and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from tidegate.settings.services import ServiceSettings

S = TypeVar("S", bound=ServiceSettings)


def env_name(service: str, name: str) -> str:
    """The environment variable of a field: TIDEGATE_XDS_LISTEN. Fields of every service also lack the middle."""
    return f"TIDEGATE_{service}_{name}".upper()


def env_names(settings: type[ServiceSettings], name: str) -> list[str]:
    """The service's own variable first, then the one that all services share, where there is one, then others'."""
    shared = {f.name for f in fields(ServiceSettings)}
    also = next(f.metadata["also"] for f in fields(settings) if f.name == name)
    return [env_name(settings.SERVICE, name), *([f"TIDEGATE_{name}".upper()] if name in shared else []), *also]


def default_of(field: Field[Any]) -> Any:
    """A field's default value, with its factory called."""
    return field.default_factory() if field.default_factory is not MISSING else field.default


def checked(check: Callable[[Any], object] | None) -> Callable[[Any], Any] | None:
    """A typer callback that turns the check's ValueError into a usage error (exit 2)."""
    if check is None:
        return None

    def callback(value: Any) -> Any:
        if value is not None:
            try:
                check(value)
            except ValueError as exc:
                raise typer.BadParameter(str(exc)) from exc
        return value

    return callback


def command(settings: type[S], run: Callable[[S], None]) -> Callable[..., None]:
    """A typer command whose options are the fields of `settings`; it builds the object and calls `run`."""
    hints = get_type_hints(settings)

    def parameter(field: Field[Any]) -> inspect.Parameter:
        name = "--" + field.name.replace("_", "-")
        option = typer.Option(
            name,
            envvar=env_names(settings, field.name),
            help=field.metadata["doc"],
            callback=checked(field.metadata["check"]),
        )
        return inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=Annotated[hints[field.name], option],
            default=default_of(field),
        )

    def call(**values: Any) -> None:
        run(settings(**values))

    parameters = [parameter(field) for field in fields(settings)]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call
