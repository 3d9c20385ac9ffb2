"""Snapshots and the cache that hands them out."""

from __future__ import annotations

import asyncio
from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import base_pb2

from xds_server.cache import SnapshotCache, Watcher
from xds_server.groups import group_of, node_of
from xds_server.snapshot import Snapshot, snapshot_of
from xds_server.type_urls import CLUSTER, PUSH_ORDER


def of_clusters(*revisions: int) -> Snapshot:
    clusters = {str(n): cluster_pb2.Cluster(name=str(n), alt_stat_name=str(r)) for n, r in enumerate(revisions)}
    return snapshot_of({CLUSTER: clusters})


def test_equal_content_has_equal_versions() -> None:
    assert of_clusters(1, 2).changed_types(of_clusters(1, 2)) == ()


def test_a_changed_resource_changes_the_version_of_its_type_alone() -> None:
    assert of_clusters(1, 3).changed_types(of_clusters(1, 2)) == (CLUSTER,)


def test_the_first_snapshot_changes_every_type() -> None:
    assert of_clusters(1).changed_types(None) == PUSH_ORDER


def test_fact_27_map_fields_are_serialised_in_one_order() -> None:
    def with_metadata(keys: list[str]) -> Any:
        cluster = cluster_pb2.Cluster(name="c")
        for key in keys:
            cluster.metadata.filter_metadata[key].update({})
        return snapshot_of({CLUSTER: {"c": cluster}})

    keys = [f"key{n}" for n in range(40)]
    assert with_metadata(keys).version(CLUSTER) == with_metadata(keys[::-1]).version(CLUSTER)


def is_woken(watcher: Watcher) -> bool:
    return watcher._changed.is_set()


async def test_a_watcher_that_is_late_finds_the_newest_snapshot_alone() -> None:
    cache, newest = SnapshotCache(), of_clusters(3)
    with cache.watch() as watcher:
        for snapshot in (of_clusters(1), of_clusters(2), newest):
            cache.set(snapshot)
        await watcher.woken()
        assert watcher.snapshot is newest
        assert not is_woken(watcher)


async def test_a_watcher_that_comes_after_the_snapshot_is_given_it() -> None:
    cache = SnapshotCache()
    cache.set(of_clusters(1))
    with cache.watch() as watcher:
        await asyncio.wait_for(watcher.woken(), 60)
        assert watcher.snapshot is cache.snapshot is not None


async def test_an_identical_snapshot_wakes_nobody() -> None:
    cache = SnapshotCache()
    cache.set(of_clusters(1))
    with cache.watch() as watcher:
        await watcher.woken()
        assert cache.set(of_clusters(1)) == ()
        assert not is_woken(watcher)


async def test_a_watcher_s_patience_ends() -> None:
    with SnapshotCache().watch() as watcher:
        await watcher.woken()
        await asyncio.wait_for(watcher.woken(0.001), 60)


async def test_a_group_gets_its_own_snapshot_and_others_the_default() -> None:
    cache, own, common = SnapshotCache(), of_clusters(1), of_clusters(2)
    cache.set(common)
    with cache.watch("edge") as edge, cache.watch("core") as core:
        await edge.woken()
        await core.woken()
        cache.set(own, "edge")
        assert (is_woken(edge), edge.snapshot) == (True, own)
        assert (is_woken(core), core.snapshot) == (False, common)
        cache.drop("edge")
        assert edge.snapshot is common


def test_a_node_names_its_group_in_metadata_or_else_by_its_cluster() -> None:
    node = base_pb2.Node(id="e", cluster="tidegate")
    assert group_of(node_of(node)) == "tidegate"
    node.metadata.update({"tidegate_group": "edge"})
    assert group_of(node_of(node)) == "edge"


def test_a_watcher_is_gone_with_its_block() -> None:
    cache = SnapshotCache()
    with cache.watch():
        assert cache.watchers == 1
    assert cache.watchers == 0
