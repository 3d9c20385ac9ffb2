"""Several workers' metrics as one: sums that no worker's end makes fall."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

from ext_proc.metrics import ExtProcMetrics
from ext_proc.tokens import TokenBook
from ext_proc.workers_sums import Sums
from tidegate.exposition import Families, Life, life_of
from tidegate.store.stats import StoreMetrics

NOBODY = Life("parent", [])
DECIDED = "tidegate_ext_proc_decision_seconds"


class Worker:
    """One process' metrics, as its app has them."""

    def __init__(self, life: str) -> None:
        self.registry, self.life = CollectorRegistry(), life
        self.metrics = ExtProcMetrics(self.registry, TokenBook(["phi-3"]))
        StoreMetrics(self.registry, object())
        Info("tidegate_build", "x", registry=self.registry).info({"version": "1"})
        self.queued = Gauge("tidegate_queue_requests", "x", ["cluster"], registry=self.registry)
        self.share = Gauge("tidegate_ext_proc_split_permille", "x", registry=self.registry)
        self.ends = Gauge("tidegate_tls_certificate_not_after_seconds", "x", registry=self.registry)
        self.counted = Counter("tidegate_ext_proc_output_windows", "x", registry=self.registry)

    def tells(self) -> Life:
        return life_of(self.life, Families(self.registry))


def page(sums: Sums) -> dict[str, float]:
    """Series → value, as one registry would hold them."""
    return {
        one.name + "".join(f" {value}" for _, value in sorted(one.labels.items())): one.value
        for family in sums.summed(NOBODY).collect()
        for one in family.samples
    }


def test_counts_are_summed_and_histograms_bucket_by_bucket() -> None:
    sums, one, two = Sums(), Worker("a"), Worker("b")
    one.metrics.decided("phi-3", "pick")
    for worker, seconds in ((one, 30e-6), (one, 3e-3), (two, 3e-3)):
        worker.metrics.took(seconds)
        worker.metrics.decided("phi-3", "weights")
    sums.heard({"1": one.tells(), "2": two.tells()})
    said = page(sums)
    assert said["tidegate_ext_proc_decisions_total weights phi-3"] == 3
    assert said["tidegate_ext_proc_decisions_total pick phi-3"] == 1
    buckets = [said[f"{DECIDED}_bucket {bound}"] for bound in ("2.5e-05", "5e-05", "0.0025", "0.005", "+Inf")]
    assert buckets == [0, 1, 1, 3, 3]
    assert (said[f"{DECIDED}_count"], round(said[f"{DECIDED}_sum"], 6)) == (3, 0.00603)


def test_gauges_follow_their_rule() -> None:
    sums, one, two = Sums(), Worker("a"), Worker("b")
    for worker, waiting, permille, ends in ((one, 3, 10, 2000), (two, 4, 20, 1000)):
        worker.queued.labels("phi-3").set(waiting)
        worker.share.set(permille)
        worker.ends.set(ends)
        worker.counted.inc(permille)
    sums.heard({"1": one.tells(), "2": two.tells()})
    said = page(sums)
    assert said["tidegate_queue_requests phi-3"] == 7
    assert said["tidegate_ext_proc_split_permille"] == 20
    assert said["tidegate_tls_certificate_not_after_seconds"] == 1000
    assert said["tidegate_ext_proc_output_windows_total"] == 20
    assert said["tidegate_build_info 1"] == 1


def test_the_newest_exemplar_of_a_bucket_is_kept() -> None:
    sums, one, two = Sums(), Worker("a"), Worker("b")
    one.metrics.took(3e-3, "1" * 32)
    two.metrics.took(3e-3, "2" * 32)
    sums.heard({"2": two.tells(), "1": one.tells()})
    [decisions] = [family for family in sums.summed(NOBODY).collect() if family.name == DECIDED]
    assert [one.exemplar.labels["trace_id"] for one in decisions.samples if one.exemplar] == ["2" * 32]


def test_a_worker_that_dies_leaves_its_counts_and_takes_its_gauges() -> None:
    sums, one, two = Sums(), Worker("a"), Worker("b")
    for worker in (one, two):
        worker.metrics.took(1e-3)
        worker.queued.labels("phi-3").set(5)
    sums.heard({"1": one.tells(), "2": two.tells()})
    sums.heard({"2": two.tells()})
    said = page(sums)
    assert (said[f"{DECIDED}_count"], said["tidegate_queue_requests phi-3"]) == (2, 5)


def test_the_lives_of_a_worker_add_up_however_many() -> None:
    sums = Sums()
    for life in "abc":
        worker = Worker(life)
        worker.metrics.took(1e-3)
        worker.counted.inc(7)
        for _ in range(2):  # the same life, told again, counts once
            sums.heard({"1": worker.tells()})
    said = page(sums)
    assert (said[f"{DECIDED}_count"], said["tidegate_ext_proc_output_windows_total"]) == (3, 21)


def test_a_successor_that_counted_less_does_not_make_the_largest_fall() -> None:
    sums, one, two = Sums(), Worker("a"), Worker("b")
    one.counted.inc(9)
    two.counted.inc(4)
    sums.heard({"1": one.tells(), "2": two.tells()})
    sums.heard({"1": Worker("c").tells(), "2": two.tells()})
    assert page(sums)["tidegate_ext_proc_output_windows_total"] == 9


def test_what_a_worker_did_is_told_by_worker_since_it_started() -> None:
    sums, one = Sums(), Worker("a")
    one.metrics.took(1e-3)
    sums.heard({"1": one.tells()})
    assert sums.by_worker(f"{DECIDED}_count") == {"1": 1}
    sums.heard({"1": Worker("b").tells()})
    assert sums.by_worker(f"{DECIDED}_count") == {"1": 0}
