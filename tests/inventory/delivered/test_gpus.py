"""Lists of GPUs: what the lab presents, and what a broken list says."""

import re

import pytest

from inventory.delivered.assets import AssetError
from inventory.delivered.gpus import gpus_hash, load_gpus, parse_gpus
from inventory.site import load_site

GPU_LINE = "gpu001,1,SIM-GPU-1001,GPU-fd00befd-ddc5-5336-8d33-620ac672eda2,00000000:1B:00.0"
GPU_HEADER = "device,slot,serial,uuid,pci_bus_id"


def test_the_lab_lists_eight_gpus_for_each_gpu_node():
    gpus = load_gpus(load_site("lab"))
    assert gpus.groupby("device").size().to_dict() == {f"gpu00{n}": 8 for n in range(1, 5)}


def test_a_site_without_a_list_of_gpus_has_none():
    assert load_gpus(load_site("h100-1000-ib")).empty


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (GPU_LINE.replace("GPU-fd", "fd"), "uuid 'fd00befd-ddc5-5336-8d33-620ac672eda2' is not of the form GPU-"),
        (GPU_LINE.replace("1B:00.0", "1b:00"), "pci_bus_id '00000000:1b:00' is not of the form 00000000:1B:00.0"),
        (GPU_LINE.replace("SIM-GPU-1001", ""), "gpu001 slot 1: serial is empty"),
        ("gpu001,1", "2 cells, expected 5"),
    ],
)
def test_a_malformed_gpu_is_named_with_its_line(line, message):
    with pytest.raises(AssetError, match=re.escape(message)) as error:
        parse_gpus(f"{GPU_HEADER}\n{line}\n")
    assert str(error.value).startswith("gpus.csv:2: ")


def test_a_gpu_given_twice_is_named_with_both_lines():
    with pytest.raises(AssetError) as error:
        parse_gpus(f"{GPU_HEADER}\n{GPU_LINE}\n{GPU_LINE}\n")
    assert "gpus.csv:3: gpu001 slot 1: serial SIM-GPU-1001 is already in line 2" in str(error.value)


def test_a_list_of_gpus_with_other_columns_is_refused():
    with pytest.raises(AssetError, match="expected device, slot, serial, uuid, pci_bus_id"):
        parse_gpus("device,serial\n")


def test_the_order_of_gpus_does_not_change_their_hash():
    gpus = load_gpus(load_site("lab"))
    assert gpus_hash(gpus) == gpus_hash(gpus.iloc[::-1])
    assert gpus_hash(gpus) != gpus_hash(gpus.iloc[1:])
