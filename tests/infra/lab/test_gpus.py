"""The simulated GPUs, asked as products do: by nvidia-ml-py, through the compiled library, in a process of its own."""

import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capacity.build import build
from infra.lab import gpu_faults, gpus, nvidia
from infra.lab.paths import LabError, LabPaths
from infra.lab.planned import from_plan
from infra.lab.spec import LabSpec, Server
from inventory.catalog import load_catalog
from inventory.delivered.assets import load_assets
from inventory.delivered.gpus import load_gpus
from inventory.site import load_site
from validation.evidence import Identity
from validation.evidence.mode import classify
from validation.facts.gather import GPU_FACTS

pytestmark = [pytest.mark.clock, pytest.mark.needs("gcc", "nm")]
DRIVER = "580.95.05"
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def spec() -> LabSpec:
    site = load_site("lab")
    return from_plan(site, build(site), load_assets(site), load_catalog(), load_gpus(site))


@pytest.fixture(scope="module")
def server(spec: LabSpec) -> Server:
    return spec.server("gpu001")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvidia.compile_all(tmp_path_factory.mktemp("nvml"), DRIVER).library


@pytest.fixture
def hardware(tmp_path: Path, spec: LabSpec, server: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node's GPUs as new."""
    monkeypatch.setattr(os, "mknod", lambda path, *_: Path(path).touch())  # device files need root
    assert spec.gpu_model
    gpus.write(tmp_path / "hardware", server.gpus, spec.gpu_model)
    return tmp_path / "hardware"


@pytest.fixture
def environment(library: Path, hardware: Path, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(library.parent),
        "BRINGUP_NVML_HARDWARE": str(hardware / gpus.STATE),
        "BRINGUP_NVML_DRIVER_STATE": str(tmp_path / "driver"),
    }


@pytest.fixture
def facts(environment: dict[str, str]) -> Ask:
    """The facts program, as it runs on a node."""

    def ask(budget_s: float = 10.0, **changed: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-c", GPU_FACTS, json.dumps({"budget_s": budget_s})],
            env={**environment, **changed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return json.loads(done.stdout)

    return ask


def nvml(environment: dict[str, str], code: str) -> str:
    """Output of a program that has nvidia-ml-py as `n`, initialised, and a handle `h` of GPU 3."""
    head = "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(3)\n"
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout.strip()


def test_eight_gpus_say_who_they_are_as_the_list_of_gpus_has_it(facts, server):
    answer = facts()
    assert (answer["error"], answer["count"], answer["driver"], answer["cuda"]) == ("", 8, DRIVER, "13.0")
    keys = ("serial", "uuid", "pci_bus_id", "module_id", "vbios", "inforom")
    assert [tuple(gpu[key] for key in keys) for gpu in answer["devices"]] == [
        (gpu.serial, gpu.uuid, gpu.pci_bus_id, gpu.slot, gpu.vbios, gpu.inforom) for gpu in server.gpus
    ]


MARGINS = ["slowdown_margin", "temperature_margin"]
"""T.LIMIT, which the lab's NVML does not have."""


def test_a_new_gpu_is_healthy_and_as_the_catalogue_has_it(facts):
    model = load_catalog().gpu("nvidia-h100-sxm5-80gb")
    for gpu in facts()["devices"]:
        assert gpu["error"] == ""
        assert gpu["not_supported"] == MARGINS
        assert gpu["remapped_rows"] == {"corrected": 0, "uncorrected": 0, "pending": 0, "failed": 0}
        assert (gpu["ecc"]["enabled"], gpu["ecc"]["uncorrected"], gpu["recovery_action"]) == (True, 0, 0)
        assert gpu["clocks"]["reasons"] == ["gpu_idle"]
        assert (gpu["pcie"]["generation"], gpu["pcie"]["width"]) == (model.pcie_gen, model.pcie_width)
        assert gpu["nvlinks"] == {"up": model.nvlinks, "down": [], "errors": {}}
        assert gpu["power"]["limit_w"] == model.tdp_w
        assert gpu["memory"]["total_b"] == model.memory_gib * 2**30
        assert gpu["temperature"]["gpu_c"] < gpu["temperature"]["slowdown_c"] < gpu["temperature"]["shutdown_c"]


def test_the_product_name_declares_the_simulation_to_the_classifier(facts, hardware, server):
    name = facts()["devices"][0]["name"]
    assert classify([Identity("gpu001", "nvml", name, server.gpus[0].uuid)]) == "simulated"
    gpus.change(hardware, 0, {"name": name.removeprefix(gpus.MARKER)})
    hidden = facts()["devices"][0]["name"]
    assert hidden == "NVIDIA H100 80GB HBM3"
    assert classify([Identity("gpu001", "nvml", hidden, server.gpus[0].uuid)]) == "unproven"


def test_a_lost_gpu_is_named_and_hides_no_other(facts, hardware):
    gpus.change(hardware, 3, {"lost": 1})
    answer = facts()
    assert [(g["index"], g["error_kind"]) for g in answer["devices"] if g["error"]] == [(3, "GpuIsLost")]
    assert answer["count"] == 8


def test_a_gpu_that_hangs_is_given_up_within_the_budget(facts, hardware):
    gpus.change(hardware, 5, {"hang": 1})
    began = time.monotonic()
    answer = facts(budget_s=1.5)
    assert time.monotonic() - began < 30
    assert [(g["index"], g["error_kind"]) for g in answer["devices"] if g["error"]] == [(5, "Hang")]


def test_a_driver_that_hangs_is_given_up_within_the_budget(facts, hardware):
    (hardware / gpus.STATE / "driver").write_text("hang=1\n")
    assert (facts(budget_s=0.5)["error_kind"], facts(budget_s=0.5)["devices"]) == ("Hang", [])


def test_a_node_without_the_library_says_so(facts, tmp_path):
    answer = facts(LD_LIBRARY_PATH=str(tmp_path))
    assert (answer["error_kind"], answer["count"], answer["devices"]) == ("LibraryNotFound", 0, [])


def test_a_node_without_gpu_hardware_says_that_the_driver_is_not_loaded(facts, tmp_path):
    assert facts(BRINGUP_NVML_HARDWARE=str(tmp_path / "nothing"))["error_kind"] == "DriverNotLoaded"


def test_a_driver_and_a_library_that_differ_are_named(facts, hardware):
    (hardware / gpus.STATE / "driver").write_text("init_error=18\n")  # NVML_ERROR_LIB_RM_VERSION_MISMATCH
    assert facts()["error_kind"] == "LibRmVersionMismatch"


def test_a_gpu_without_a_feature_lists_it(facts, hardware):
    gpus.change(hardware, 1, {"mig.current": "", "mig.pending": ""})
    path = hardware / gpus.STATE / "gpu1"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("mig")))
    gpu = facts()["devices"][1]
    assert (gpu["mig"], gpu["not_supported"]) == (None, ["mig", *MARGINS])


def test_an_xid_wakes_who_waits_for_it(environment, hardware):
    writer = threading.Timer(1.0, gpus.change, (hardware, 3, {}, ["xid=94"]))
    writer.start()
    seen = nvml(
        environment,
        """
        events = n.nvmlEventSetCreate()
        n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, events)
        print(n.nvmlEventSetWait_v2(events, 15000).eventData)
    """,
    )
    writer.join()
    assert seen == "94"


def test_waiting_for_an_event_ends_with_its_timeout(environment):
    code = """
        events = n.nvmlEventSetCreate()
        n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, events)
        try:
            n.nvmlEventSetWait_v2(events, 100)
        except n.NVMLError_Timeout:
            print("timeout")
    """
    assert nvml(environment, code) == "timeout"


def test_persistence_mode_is_the_drivers_and_can_be_switched(environment):
    code = """
        print(n.nvmlDeviceGetPersistenceMode(h))
        n.nvmlDeviceSetPersistenceMode(h, 1)
        print(n.nvmlDeviceGetPersistenceMode(h))
        n.nvmlDeviceSetPersistenceMode(h, 0)
        print(n.nvmlDeviceGetPersistenceMode(h))
    """
    assert nvml(environment, code).split() == ["0", "1", "0"]


def test_a_function_that_is_not_written_answers_not_supported(environment):
    code = """
        try:
            n.nvmlDeviceGetEncoderUtilization(h)
        except n.NVMLError_NotSupported:
            print("not supported")
    """
    assert nvml(environment, code) == "not supported"


def test_nvidia_smi_lists_the_gpus(environment, library):
    done = subprocess.run(
        [library.parent / "nvidia-smi", "-L"], env=environment, capture_output=True, text=True, timeout=30, check=True
    )
    assert len([line for line in done.stdout.splitlines() if "SIMULATED NVIDIA H100" in line]) == 8


def test_a_restored_gpu_is_as_new(hardware, spec, server):
    before = gpus.read(hardware, 2)
    gpus.change(hardware, 2, {"temperature.gpu": 99}, ["xid=79"])
    assert gpus.read(hardware, 2)["temperature.gpu"] == "99"
    gpus.restore(hardware, server.gpus[2], spec.gpu_model)
    assert gpus.read(hardware, 2) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ctl01"], "ctl01 has no GPUs; nodes with GPUs: gpu001, gpu002, gpu003, gpu004"),
        (["gpu001", "9"], "gpu001 has no GPU in slot 9; slots: 1, 2, 3, 4, 5, 6, 7, 8"),
        (["gpu001", "1", "now"], "this fault takes a GPU: NODE [SLOT]"),
    ],
)
def test_a_fault_refuses_a_gpu_that_is_not_there(spec, arguments, message):
    with pytest.raises(LabError, match=re.escape(message)):
        gpu_faults.target(spec, arguments)


def test_a_fault_takes_slot_four_of_the_first_node_unless_told(spec):
    assert [gpu_faults.target(spec, words)[1].serial for words in ([], ["gpu002"], ["gpu002", "8"])] == [
        "SIM-GPU-1004",
        "SIM-GPU-2004",
        "SIM-GPU-2008",
    ]


@pytest.mark.parametrize(
    "inject", [gpu_faults.XID, gpu_faults.LOST, gpu_faults.ROW_REMAP, gpu_faults.FIRMWARE, gpu_faults.THERMAL]
)
def test_a_repaired_gpu_says_what_it_said_before(spec, server, hardware, monkeypatch, inject):
    monkeypatch.setattr(LabPaths, "hardware", lambda self, name: hardware)
    before = gpus.read(hardware, 3)
    done, undo = inject(spec, [])
    assert "slot 4 of gpu001 (serial SIM-GPU-1004)" in done
    assert gpus.read(hardware, 3) != before
    gpu_faults.restore(spec, json.loads(json.dumps(undo)))
    after = gpus.read(hardware, 3)
    after.pop("xid", None)  # what was raised stays in the past
    assert after == before


def test_the_driver_alone_is_replaced_by_a_wrong_one(spec):
    packages = nvidia.driver_packages(spec)
    assert set(packages) == {"libnvidia-ml1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-persistenced"}
    assert nvidia.other_driver(DRIVER) != DRIVER
    assert nvidia.other_driver(nvidia.OTHER_DRIVERS[0]) == nvidia.OTHER_DRIVERS[1]


@pytest.mark.needs("torch")
def test_a_burn_in_tells_of_nvlinks_that_go_down_and_count_errors(environment, hardware):
    code = """
        import io, json, time
        from validation.workloads.burnin import Telemetry
        watch = Telemetry(0.2, io.StringIO())
        watch.start()
        while not watch.samples.getvalue().count("\\n") >= 9:
            time.sleep(0.05)
        print("sampled", flush=True)
        input()
        before = watch.samples.getvalue().count("\\n")
        while watch.samples.getvalue().count("\\n") < before + 16:
            time.sleep(0.05)
        watch.end()
        print(json.dumps([one["nvlink"] for one in watch.report()["gpus"]]))
    """
    asks = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert asks.stdin is not None
    assert asks.stdout is not None
    assert asks.stdout.readline() == "sampled\n"
    gpus.change(hardware, 2, {"nvlink.7.state": "0", "nvlink.5.error.replay": "3"})
    output, _ = asks.communicate("\n", timeout=60)
    found = json.loads(output)
    links = [(one["links"], one["least_up"], {name: n for name, n in one["new"].items() if n}) for one in found]
    assert links == [(18, 18, {})] * 2 + [(18, 17, {"replay": 3})] + [(18, 18, {})] * 5
