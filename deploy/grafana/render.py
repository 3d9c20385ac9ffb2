"""A dashboard as Grafana's JSON, by Grafana's own library."""

from __future__ import annotations

import json
from typing import Any, Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as shapes
from grafana_foundation_sdk.models import dashboard as models

from deploy.grafana.board import Board, Choice, Look, Panel

SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG: Final = "tidegate"
# What happened, as marks on every panel.
MARKS: Final = (
    ("Alerts", "red", 'ALERTS{alertname=~"Tidegate.+",alertstate="firing"}', "{{alertname}}", "cluster,model,replica"),
)

AnyPanel = timeseries.Panel | stat.Panel


def render(board: Board) -> str:
    """The file's text: stable, so that a change of a panel is a change of its lines."""
    made = dashboard.Dashboard(board.title).uid(board.uid).description(board.help).tags([TAG])
    made = made.refresh("10s").time("now-30m", "now").timezone("browser").tooltip(models.DashboardCursorSync.CROSSHAIR)
    made = made.link(_to_the_others()).with_variable(_source())
    for choice in board.choices:
        made = made.with_variable(_variable(choice))
    for row in board.rows:
        made = made.with_row(dashboard.Row(row.title))
        for panel in row.panels:
            made = made.with_panel(_panel(panel))
    written = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    return json.dumps(_finished(written), indent=1, sort_keys=True) + "\n"


def _finished(written: dict[str, Any]) -> dict[str, Any]:
    """With what the library has no words for: ids, which alone tell panels apart in links, and marks with a text."""
    for number, panel in enumerate(written["panels"], start=1):
        panel["id"] = number
    written["annotations"] = {"list": [_mark(*mark) for mark in MARKS]}
    return written


def _mark(name: str, colour: str, expr: str, title: str, tags: str) -> dict[str, Any]:
    source = {"type": SOURCE.type_val, "uid": SOURCE.uid}
    words = {"titleFormat": title, "textFormat": "{{severity}}", "tagKeys": tags, "step": "10s"}
    return {"name": name, "datasource": source, "enable": True, "iconColor": colour, "expr": expr, **words}


def _to_the_others() -> dashboard.DashboardLink:
    link = dashboard.DashboardLink("Tidegate").type(models.DashboardLinkType.DASHBOARDS)
    return link.tags([TAG]).as_dropdown(as_dropdown=False).keep_time(keep_time=True).include_vars(include_vars=True)


def _source() -> dashboard.DatasourceVariable:
    return dashboard.DatasourceVariable("datasource").type("prometheus").label("Prometheus")


def _variable(choice: Choice) -> dashboard.QueryVariable:
    made = dashboard.QueryVariable(choice.name).label(choice.name).datasource(SOURCE)
    made = made.query(f"label_values({choice.metric}, {choice.name})").sort(models.VariableSort.ALPHABETICAL_ASC)
    made = made.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    everything = models.VariableOption(selected=True, text="All", value="$__all")
    made = made.multi(multi=True).include_all(include_all=True).current(everything)
    return made if choice.everything is None else made.all_value(choice.everything)


def _panel(panel: Panel) -> AnyPanel:
    made: AnyPanel = _stat() if panel.look is Look.STAT else _lines(panel)
    made = made.title(panel.title).description(panel.help).datasource(SOURCE).unit(panel.unit)
    made = made.span(panel.width).height(panel.height)
    if panel.bad is not None or panel.warn is not None:
        made = made.thresholds(_thresholds(panel))
    if panel.zero is not None:
        made = made.mappings([models.ValueMap(options={"0": models.ValueMappingResult(text=panel.zero)})])
    for number, query in enumerate(panel.queries):
        asked = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(chr(ord("A") + number))
        made = made.with_target(asked.instant() if panel.look is Look.STAT else asked.range())
    return made


def _lines(panel: Panel) -> timeseries.Panel:
    made = timeseries.Panel().line_width(1).fill_opacity(30 if panel.look is Look.STACK else 8)
    made = made.show_points(shapes.VisibilityMode.NEVER).min(0)
    legend = common.VizLegendOptions().display_mode(shapes.LegendDisplayMode.TABLE).show_legend(show_legend=True)
    made = made.legend(legend.placement(shapes.LegendPlacement.BOTTOM).calcs(["lastNotNull", "max"]))
    made = made.tooltip(common.VizTooltipOptions().mode(shapes.TooltipDisplayMode.MULTI))
    if panel.look is Look.STACK:
        made = made.stacking(common.StackingConfig().mode(shapes.StackingMode.NORMAL))
    if panel.bad is not None:
        made = made.thresholds_style(common.GraphThresholdsStyleConfig().mode(shapes.GraphThresholdsStyleMode.DASHED))
    return made


def _stat() -> stat.Panel:
    last = common.ReduceDataOptions().calcs(["lastNotNull"]).values(values=False)
    made = stat.Panel().reduce_options(last).text_mode(shapes.BigValueTextMode.VALUE_AND_NAME)
    return made.graph_mode(shapes.BigValueGraphMode.NONE).color_mode(shapes.BigValueColorMode.VALUE)


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    steps = [models.Threshold(value=None, color="green")]
    if panel.warn is not None:
        steps.append(models.Threshold(value=panel.warn, color="orange"))
    if panel.bad is not None:
        steps.append(models.Threshold(value=panel.bad, color="red"))
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
