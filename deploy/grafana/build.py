"""`python -m deploy.grafana.build`: write every dashboard's JSON to dashboards/."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from deploy.grafana.boards import BOARDS
from deploy.grafana.render import render

FOLDER: Final = Path(__file__).parent / "dashboards"


def main() -> None:
    """Write the files."""
    for board in BOARDS:
        (FOLDER / f"{board.uid}.json").write_text(render(board))


if __name__ == "__main__":
    main()
