"""The process that calls the driver: one, whatever the driver does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from metrics_agent import app
from metrics_agent.gpu import NvmlState, process, worker
from metrics_agent.gpu.errors import GpuError
from metrics_agent.gpu.process import NvmlGpus
from tests.agent.nvml.cards import GIB, card, fail, hang, mig_device, uuid
from tests.agent.nvml.fake import INITS, LIBRARY
from tests.agent.nvml.workers import IMPATIENT, PATIENT
from tests.conftest import until, wait_until
from tests.processes import alive

MEMORY = "nvmlDeviceGetMemoryInfo_v2"


@pytest.fixture
def impatient(monkeypatch):
    """Retries of worker and process within a fifth of a second."""
    monkeypatch.setattr(process, "WORKER", IMPATIENT)
    monkeypatch.setattr(process, "RESTART_SECONDS", (0.05, 2.0, 0.2))


@pytest.fixture
def unhurried(monkeypatch):
    """However busy the machine: an end is waited for, and nothing is tried again."""
    monkeypatch.setattr(process, "WORKER", PATIENT)
    monkeypatch.setattr(process, "STOP_SECONDS", 60.0)
    monkeypatch.setattr(process, "RESTART_SECONDS", (600.0, 2.0, 600.0))


async def reads(gpus, state=NvmlState.OK):
    await until(lambda: gpus.latest().nvml == state, what=f"state {state}")


async def sweeps(driver, more=3):
    """Wait until the driver has counted its cards `more` times."""
    goal = driver.count("nvmlDeviceGetCount_v2") + more
    await until(lambda: driver.count("nvmlDeviceGetCount_v2") >= goal)


async def test_driver_is_initialised_once_and_shut_down_at_the_end(driver, unhurried):
    driver.write({"cards": [card(0)]})
    gpus = NvmlGpus(interval_seconds=0.001)
    gpus.start()
    await sweeps(driver, 200)
    await gpus.stop()
    assert (driver.count(*INITS), driver.count("nvmlShutdown")) == (1, 1)


async def test_stop_before_the_first_reading_ends_the_process(driver, unhurried):
    gpus = NvmlGpus(interval_seconds=0.1)
    gpus.start()
    await gpus.stop()
    assert not any(map(alive, driver.pids()))
    await gpus.stop()  # once more does nothing


async def test_stop_ends_a_process_that_has_not_called_the_driver_yet(driver, unhurried, monkeypatch):
    monkeypatch.setattr(process, "WORKER", ("-c", "import time; time.sleep(60)"))
    gpus = NvmlGpus(interval_seconds=0.1)
    gpus.start()
    await until(lambda: gpus._process)
    await gpus.stop()
    assert gpus._process.returncode == -signal.SIGTERM


async def test_process_that_does_not_end_is_left_behind_and_not_killed(driver, monkeypatch):
    deaf = (
        'import signal, time; signal.signal(15, signal.SIG_IGN); print(\'{"nvml":"ok"}\', flush=True); time.sleep(60)'
    )
    monkeypatch.setattr(process, "WORKER", ("-c", deaf))
    monkeypatch.setattr(process, "STOP_SECONDS", 0.1)
    gpus = NvmlGpus(interval_seconds=0.1)
    gpus.start()
    await reads(gpus)
    await gpus.stop()
    pid = gpus._process.pid
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)  # no card is there
    os.waitpid(pid, 0)


async def test_slow_interval_still_samples_ten_times_a_second(driver, reader):
    driver.write({"cards": [card(0)]})
    gpus = reader(interval_seconds=60)
    await reads(gpus)
    await sweeps(driver, 5)


async def test_what_a_card_does_not_support_is_asked_once(driver, reader):
    only_one_lacks_power = card(0)
    del only_one_lacks_power["milliwatts"]
    driver.write({"cards": [only_one_lacks_power, card(1)]})
    reader()
    await sweeps(driver, 21)  # the last of them may have only begun
    calls = driver.calls()
    assert calls["nvmlDeviceGetPowerUsage", "0"] == 1
    assert calls["nvmlDeviceGetPowerUsage", "1"] >= 20
    assert calls["nvmlDeviceGetMigMode", "0"] == 1


async def test_refused_mig_devices_are_asked_for_once(driver, reader):
    refusals = [fail("nvmlDeviceGetMigMode", "0", 4)]
    refusals += [fail("nvmlDeviceGetMigDeviceHandleByIndex", f"0.{slot}", 4 if slot else 6) for slot in range(7)]
    driver.write({"cards": [card(0)], "calls": refusals})
    reader()
    await sweeps(driver, 20)
    assert {driver.calls()["nvmlDeviceGetMigDeviceHandleByIndex", f"0.{slot}"] for slot in range(7)} == {1}


async def test_mig_device_of_a_card_that_refuses_its_mode_is_read_on(driver, reader):
    driver.write({"cards": [card(0, mig={"3": mig_device(3)})], "calls": [fail("nvmlDeviceGetMigMode", "0", 4)]})
    gpus = reader()
    await sweeps(driver, 21)
    assert driver.calls()["nvmlDeviceGetMigDeviceHandleByIndex", "0.3"] >= 20
    assert driver.calls()["nvmlDeviceGetMigDeviceHandleByIndex", "0.2"] == 1
    await until(lambda: mig_device(3)["uuid"] in gpus.latest().gpus)


async def test_empty_slot_of_a_card_that_tells_its_mode_is_asked_again(driver, reader):
    driver.write({"cards": [card(0, mig={})]})
    gpus = reader()
    await sweeps(driver, 5)
    driver.write({"cards": [card(0, mig={"0": mig_device(0)})]})
    await until(lambda: mig_device(0)["uuid"] in gpus.latest().gpus)


@pytest.mark.parametrize("code", [2, 3, 13, 25, 999])
async def test_memory_version_that_fails_is_asked_once(driver, reader, code):
    driver.write({"cards": [card(0)], "calls": [fail(MEMORY, "0", code)]})
    gpus = reader()
    await reads(gpus)
    await sweeps(driver, 10)
    assert gpus.latest().gpus[uuid(0)]["memory_api"] == "v1"
    assert driver.calls()[MEMORY, "0"] == 1


async def test_card_is_asked_again_for_what_mig_withheld(driver, reader):
    driver.write({"cards": [card(0, mig={})], "calls": [fail("nvmlDeviceGetUtilizationRates", "0", 3)]})
    gpus = reader()
    await reads(gpus)
    assert "utilization_ratio" not in gpus.latest().gpus[uuid(0)]
    driver.write({"cards": [card(0)], "calls": [{"symbol": "nvmlDeviceGetMigMode", "place": "0", "value": [0, 0]}]})
    await until(lambda: gpus.latest().gpus[uuid(0)].get("utilization_ratio") == 0.5)


async def test_passing_error_leaves_its_field_unknown_and_is_asked_again(driver, reader):
    script = {"cards": [card(0)]}
    driver.write(script | {"calls": [fail("nvmlDeviceGetPowerUsage", "0", 10)]})
    gpus = reader()
    await reads(gpus)
    assert "power_w" not in gpus.latest().gpus[uuid(0)]
    driver.write(script)
    await until(lambda: gpus.latest().gpus[uuid(0)].get("power_w") == 100.0)


@pytest.mark.parametrize("symbol", [MEMORY, "nvmlDeviceGetUUID", "nvmlDeviceGetPowerUsage"])
async def test_hung_call_is_stale_then_hung_then_recovers_by_itself(driver, reader, symbol):
    script = {"cards": [card(0)]}
    driver.write(script)
    gpus = reader(deadline_seconds=60.0)
    await reads(gpus)
    threads = threading.active_count()

    driver.write(script | {"calls": [hang(symbol)]})
    await until(lambda: driver.hangs(symbol), what="the hang")
    await reads(gpus, NvmlState.STALE)
    assert gpus.latest().gpus[uuid(0)]["vram_free_bytes"] == 60 * GIB  # still told, with its time
    gpus._deadline = 0.0  # as if it were over
    await reads(gpus, NvmlState.HUNG)
    assert gpus.latest().gpus == {uuid(0): {"index": 0, "name": "A card", "reason": "hung"}}
    before = driver.calls()
    for _ in range(50):
        gpus.latest()
    assert (before, threads) == (driver.calls(), threading.active_count())  # one call is out, and stays the only one

    gpus._deadline = 60.0
    driver.write(script)
    await reads(gpus)
    assert (len(driver.pids()), driver.count(*INITS)) == (1, 1)


async def test_driver_that_hangs_at_its_initialisation_is_hung_and_recovers(driver, reader):
    script = {"cards": [card(0)]}
    driver.write(script | {"calls": [hang("nvmlInitWithFlags", "-")]})
    gpus = reader(deadline_seconds=0.3)
    await reads(gpus, NvmlState.HUNG)
    assert gpus.latest().gpus == {}
    driver.write(script)
    await reads(gpus)
    assert (len(driver.pids()), driver.count(*INITS)) == (1, 1)


@pytest.mark.parametrize("call", [hang(MEMORY), hang("nvmlInitWithFlags", "-"), hang("nvmlShutdown", "-")])
async def test_stop_leaves_a_driver_that_hangs_for_ever(driver, call):
    driver.write({"cards": [card(0)], "calls": [call]})
    gpus = NvmlGpus(0.02, deadline_seconds=60.0)
    gpus.start()
    if call["symbol"] == "nvmlShutdown":
        await reads(gpus)
    else:
        await until(lambda: driver.hangs(call["symbol"]), what="the hang")
    await gpus.stop()
    await until(lambda: not any(map(alive, driver.pids())))


def test_everything_that_hangs_is_left_within_two_seconds():
    """What these constants bound does hang in the test before."""
    stop_seconds = process.STOP_SECONDS + process.LAST_SECONDS
    assert worker.LEAVE_SECONDS < process.STOP_SECONDS
    assert max(stop_seconds, app.LEAVE_SECONDS) < app.END_SECONDS
    assert app.END_SECONDS + app.CLOSE_SECONDS < 2


@pytest.mark.parametrize("how", ["sigterm", "parent"])
def test_worker_finishes_its_call_and_shuts_nvml_down(driver, how):
    driver.write({"cards": [card(0)], "calls": [hang(MEMORY, seconds=0.3, from_call=2)]})
    command = [sys.executable, *PATIENT, "0.01"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        wait_until(lambda: driver.hangs(MEMORY), what="the call that takes a while")
        if how == "sigterm":
            worker.send_signal(signal.SIGTERM)
        else:
            worker.stdin.close()
        worker.stdout.read()
        assert worker.wait(timeout=60) == 0
    assert driver.count("nvmlShutdown") == 1


def test_worker_leaves_ctrl_c_to_the_agent(driver):
    driver.write({"cards": [card(0)]})
    command = [sys.executable, *PATIENT, "0.01"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as worker:
        wait_until(lambda: driver.count("nvmlDeviceGetCount_v2") > 2)
        seen = driver.count("nvmlDeviceGetCount_v2")
        worker.send_signal(signal.SIGINT)
        wait_until(lambda: driver.count("nvmlDeviceGetCount_v2") > seen + 2)
        worker.stdin.close()
        assert worker.wait(timeout=60) == 0


async def test_driver_that_crashes_is_told_and_its_process_is_not_replaced_at_once(driver, unhurried, reader):
    script = {"cards": [card(0)]}
    driver.write(script)
    gpus = reader()
    await reads(gpus)
    driver.write(script | {"calls": [fail(MEMORY, "0", -1)]})
    await reads(gpus, NvmlState.CRASHED)
    assert gpus.latest().gpus == {uuid(0): {"index": 0, "name": "A card", "reason": "crashed"}}
    assert len(driver.pids()) == 1


async def test_crashed_process_is_replaced_and_knows_the_cards_of_before(driver, reader, impatient):
    script = {"cards": [card(0), card(1)]}
    driver.write(script)
    gpus = reader()
    await reads(gpus)
    driver.write(script | {"calls": [fail(MEMORY, "0", -1)]})
    await reads(gpus, NvmlState.CRASHED)
    driver.write({"cards": [card(0)]})
    await reads(gpus, NvmlState.GPU_LOST)
    assert gpus.latest().gpus[uuid(1)]["reason"] == "gpu_lost"


async def test_driver_mismatch_is_read_by_another_process_once_it_is_mended(driver, reader, impatient):
    script = {"cards": [card(0)]}
    driver.write(script | {"calls": [fail("nvmlInitWithFlags", "-", 18)]})
    gpus = reader()
    await reads(gpus, NvmlState.DRIVER_MISMATCH)
    await until(lambda: len(driver.pids()) > 1)  # a library stays loaded as long as its process lives
    assert gpus.latest().nvml == NvmlState.DRIVER_MISMATCH
    driver.write(script)
    await reads(gpus)


async def test_driver_that_is_not_loaded_is_asked_again_by_the_same_process(driver, reader, impatient):
    script = {"cards": [card(0)]}
    driver.write(script | {"calls": [fail("nvmlInitWithFlags", "-", 9)]})
    gpus = reader()
    await reads(gpus, NvmlState.DRIVER_NOT_LOADED)
    driver.write(script)
    await reads(gpus)
    assert len(driver.pids()) == 1


class Waits(list):
    """Stands for the event that ends a worker, after seven waits; no time passes."""

    def is_set(self):
        return len(self) == 7

    wait = list.append


def test_retries_grow_rare_and_each_is_announced(monkeypatch):
    def refuse():
        raise GpuError(NvmlState.DRIVER_NOT_LOADED)

    monkeypatch.setattr(worker.nvml, "initialise", refuse)
    told, waits = [], Waits()
    worker.Worker(0.1, told.append, waits, lambda: None).run()
    assert waits == [2, 4, 8, 16, 32, 60, 60]
    assert [(one.nvml, one.quiet_seconds) for one in told[1:]] == [(NvmlState.DRIVER_NOT_LOADED, s) for s in waits]


async def test_driver_that_lost_its_initialisation_gets_another(driver, reader, impatient):
    script = {"cards": [card(0)]}
    driver.write(script)
    gpus = reader()
    await reads(gpus)
    driver.write(script | {"calls": [fail("nvmlDeviceGetCount_v2", "-", 1)]})
    await reads(gpus, NvmlState.ERROR)
    assert gpus.latest().gpus == {uuid(0): {"index": 0, "name": "A card", "reason": "error"}}
    driver.write(script)
    await reads(gpus)
    assert driver.count(*INITS) == driver.count("nvmlShutdown") + 1


async def test_lost_card_is_looked_for_by_another_initialisation(driver, reader, impatient):
    script = {"cards": [card(0), card(1)]}
    driver.write(script)
    gpus = reader()
    await reads(gpus)
    driver.write(script | {"calls": [fail(MEMORY, "1", 15)]})
    await reads(gpus, NvmlState.GPU_LOST)
    await until(lambda: driver.count(*INITS) > 1)
    driver.write(script)
    await reads(gpus)
    assert gpus.latest().gpus[uuid(1)]["healthy"] is True


async def test_lost_card_causes_no_initialisation_at_once(driver, unhurried, reader):
    driver.write({"cards": [card(0), card(1)], "calls": [fail(MEMORY, "1", 15)]})
    gpus = reader()
    await reads(gpus, NvmlState.GPU_LOST)
    await sweeps(driver, 50)
    assert driver.count(*INITS) == 1


async def test_cards_keep_their_readings_when_their_order_changes(driver, reader, impatient):
    driver.write({"cards": [card(0), card(1)]})
    gpus = reader()
    await reads(gpus)
    driver.write({"cards": [card(1), card(0)], "calls": [fail("nvmlDeviceGetCount_v2", "-", 1)]})
    await reads(gpus, NvmlState.ERROR)
    driver.write({"cards": [card(1), card(0)]})
    await reads(gpus)
    told = {key: (fields["index"], fields["temperature_c"]) for key, fields in gpus.latest().gpus.items()}
    assert told == {uuid(0): (1, 40), uuid(1): (0, 41)}


@pytest.fixture
def library_folder(tmp_path, monkeypatch):
    """An empty folder that is searched first for libraries."""
    folder = tmp_path / "lib"
    folder.mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    return folder


@pytest.mark.parametrize("shadow", ["directory", "text", "empty", "dangling"])
async def test_node_without_a_library_says_so_and_asks_on_in_one_process(library_folder, reader, impatient, shadow):
    path = library_folder / LIBRARY
    if shadow == "directory":
        path.mkdir()
    elif shadow == "dangling":
        path.symlink_to("/nonexistent/library")
    else:
        path.write_text("no library" if shadow == "text" else "")
    gpus = reader()
    await reads(gpus, NvmlState.NO_LIBRARY)
    worker = gpus._process.pid
    first = gpus.latest().read_at_ms
    await until(lambda: gpus.latest().read_at_ms > first)
    assert (NvmlState.NO_LIBRARY, {}, worker) == (gpus.latest().nvml, gpus.latest().gpus, gpus._process.pid)


async def test_library_from_before_mig_and_memory_v2_is_read(driver, old_library, monkeypatch, reader):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(old_library))
    driver.write({"cards": [card(0)]})
    gpus = reader()
    await reads(gpus)
    told = gpus.latest().gpus[uuid(0)]
    assert tuple(told[name] for name in ("memory_api", "vram_free_bytes", "temperature_c", "utilization_ratio")) == (
        "v1",
        60 * GIB,
        40,
        0.5,
    )
    await sweeps(driver, 10)
    assert driver.count(*INITS) == 1


async def test_library_without_the_old_temperature_is_read(driver, newest_library, monkeypatch, reader):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(newest_library))
    driver.write({"cards": [card(0)]})
    gpus = reader()
    await reads(gpus)
    assert gpus.latest().gpus[uuid(0)]["temperature_c"] == 40


async def test_name_that_is_no_utf8_is_shown_as_far_as_it_goes(driver, reader):
    driver.write({"cards": [card(0)]})
    driver.path.write_bytes(driver.path.read_bytes().replace(b"A card", b"caf\xe9"))
    gpus = reader()
    await reads(gpus)
    assert gpus.latest().gpus[uuid(0)]["name"] == "caf\N{REPLACEMENT CHARACTER}"
