"""One dashboard a module, each with its `BOARD`, and `BOARDS`, all of them."""

from typing import Final

from deploy.grafana.boards import canary, control_plane, fleet, model, slo

BOARDS: Final = (fleet.BOARD, model.BOARD, canary.BOARD, slo.BOARD, control_plane.BOARD)
