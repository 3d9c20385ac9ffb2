"""The `tidegate` command: registers subcommands and turns our errors into one sentence and an exit code."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from tidegate.cli import check_config, events, explain, lab, operate, services, status, top, tune
from tidegate.cli.up.command import up
from tidegate.domain.errors import BinaryNotFound, ConfigError, TidegateError

app = typer.Typer(
    name="tidegate",
    help="An Envoy control plane for generative-AI traffic.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"tidegate {version('tidegate')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """An Envoy control plane for generative-AI traffic."""


app.command()(up)
services.register(app)
app.command("status")(status.status)
app.command("check-config")(check_config.check_config)
app.command("lab")(lab.lab)
app.command("top")(top.top)
app.command("explain")(explain.explain)
app.command("events")(events.events)
app.add_typer(tune.app, name="tune")
operate.register(app)


def main() -> None:
    """Run the command line. Exit 2: usage or configuration; 1: anything else that went wrong."""
    try:
        app()
    except (ConfigError, BinaryNotFound) as exc:
        print(exc, file=sys.stderr)
        sys.exit(2)
    except TidegateError as exc:
        print(exc, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
