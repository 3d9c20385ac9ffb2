"""The `tidegate` command: registers subcommands and turns our errors into one sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer

from tidegate.domain.errors import BinaryNotFound, ConfigError, TidegateError

COMMANDS: Final = {
    "up": "up.command:up",
    "xds": "services:register",
    "ext-proc": "services:register",
    "outcomes": "services:register",
    "agent": "services:register",
    "engine-sim": "services:register",
    "status": "status:status",
    "check-config": "check_config:check_config",
    "lab": "lab:lab",
    "top": "top:top",
    "explain": "explain:explain",
    "events": "events:events",
    "tune": "tune:app",
    "weight": "operate:register",
    "drain": "operate:register",
    "undrain": "operate:register",
    "split": "split:app",
    "actions": "actions:app",
    "scale": "scale:app",
    "rollout": "rollout:app",
}
"""Where each command is: a module of `tidegate.cli`, and in it a function, an `app` of subcommands, or `register`,
which adds several. A command that is asked for is imported without the others, which would cost it a second."""


def application(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands, and those that are registered along with them."""
    app = typer.Typer(
        name="tidegate",
        help="An Envoy control plane for generative-AI traffic.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    added: set[str] = set()
    for name in commands:
        if (place := COMMANDS[name]) not in added:
            added.add(place)
            _add(app, place, name)
    return app


def _add(app: typer.Typer, place: str, name: str) -> None:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"tidegate.cli.{module}"), attribute)
    if attribute == "register":
        found(app)
    elif attribute == "app":
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"tidegate {version('tidegate')}")
        raise typer.Exit


def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """An Envoy control plane for generative-AI traffic."""


def __getattr__(name: str) -> Any:
    """`app` is the whole command line, made when it is asked for."""
    if name != "app":
        raise AttributeError(name)
    return application()


def main() -> None:
    """Run the command line. Exit 2: usage or configuration; 1: anything else that went wrong."""
    asked = sys.argv[1:2]
    try:
        application(asked if asked and asked[0] in COMMANDS else COMMANDS)()
    except (ConfigError, BinaryNotFound) as exc:
        print(exc, file=sys.stderr)
        sys.exit(2)
    except TidegateError as exc:
        print(exc, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
