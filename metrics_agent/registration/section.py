"""What a registration says, whichever way it is written."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationError

from metrics_agent.targets import Source, Target
from tidegate.domain.topology import Kind, Precision
from tidegate.settings.config_model import ModelName, Name, ReplicaSection
from tidegate.settings.config_sentences import faults_of
from tidegate.settings.config_tree import Fault, Tree


class EngineSection(ReplicaSection):
    """One engine: what an endpoint of the configuration file says, and what its cluster would. See `docs/agent.md`."""

    cluster: Name
    models: list[ModelName] = Field(default=[])
    precision: Literal["fp16", "bf16", "fp8", "int8", "int4"] | None = None
    kind: Literal["llm", "diffusion"] | None = None


def target_of(tree: Tree, source: Source, node: str = "") -> tuple[Target | None, list[Fault]]:
    """The engine that `tree` describes, or every fault of it; neither when it is of another node than `node`."""
    try:
        section = EngineSection.model_validate(tree.value)
    except ValidationError as exc:
        return None, sorted(set(faults_of(exc, tree, EngineSection)))
    if section.node not in {None, node}:
        return None, []
    return Target(
        cluster=section.cluster,
        address=section.address,
        gpus=tuple(section.gpus),
        models=tuple(section.models),
        precision=Precision(section.precision) if section.precision else None,
        kind=Kind(section.kind) if section.kind else None,
        source=source,
        engine=section.engine,
        metrics=section.metrics,
    ), []
