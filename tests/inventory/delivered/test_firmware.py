"""Firmware bundles: what a file may say, and which items of an inventory it is about."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.delivered.firmware import BundleError, load_bundles, read_bundle
from inventory.site import load_site
from tests.infra.lab.helpers import other_site

LAB = load_site("lab")
IMAGE = b"image"
TEXT = f"""\
bundle: 1.4
model: lab-gpu-node
source: written for this test
packages:
  - name: BMC
    image: {{file: bmc.bin, sha256: {hashlib.sha256(IMAGE).hexdigest()}}}
    versions: {{BMC: 2.0}}
    takes_effect: bmc_reset
    budget_min: 10
  - name: GPUs
    image: {{file: gpus.bin, sha256: {hashlib.sha256(b"").hexdigest()}}}
    versions: {{HGX_FW_GPU_SXM_*: 96.00.99}}
    takes_effect: ac_cycle
    budget_min: 60
"""


@pytest.fixture
def site(tmp_path):
    path = other_site(tmp_path, "bundles", 201)
    (path.parent / "firmware" / "lab.yaml").unlink()
    return load_site(path)


def write(site, text, name="lab.yaml"):
    path = site.dir / "firmware" / name
    path.write_text(text)
    return path


def test_a_site_without_the_folder_has_none():
    assert load_bundles(load_site("h100-1000-ib")) == {}


def test_a_bundle_keeps_the_order_of_its_packages_and_finds_its_images(site):
    write(site, TEXT.replace("1.4", '"1.4"').replace("2.0", '"2.0"'))
    (site.dir / "firmware/bmc.bin").write_bytes(IMAGE)
    bundle = load_bundles(site)["lab-gpu-node"]
    assert [package.name for package in bundle.packages] == ["BMC", "GPUs"]
    assert bundle.packages[0].image.fault() == ""
    assert "gpus.bin cannot be read (No such file or directory)" in bundle.packages[1].image.fault()
    (site.dir / "firmware/bmc.bin").write_bytes(IMAGE + b"x")
    assert "bmc.bin has SHA-256" in bundle.packages[0].image.fault()


def test_patterns_fit_items_and_what_fits_none_is_absent(site):
    bundle = read_bundle(write(site, TEXT.replace("1.4", '"1.4"').replace("2.0", '"2.0"')), site)
    inventory = {"HGX_FW_GPU_SXM_1": "96.00.98", "HGX_FW_GPU_SXM_2": "96.00.99", "BIOS": "1"}
    bmc, gpus = bundle.packages
    assert gpus.items(inventory) == {
        "HGX_FW_GPU_SXM_1": ("96.00.98", "96.00.99"),
        "HGX_FW_GPU_SXM_2": ("96.00.99", "96.00.99"),
    }
    assert bmc.items(inventory) == {}
    assert bmc.absent(inventory) == ["BMC"]
    assert gpus.absent(inventory) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("96.00.99", "latest", "packages[1].versions: not a valid value"),
        ("model: lab-gpu-node", "model: dgx-h100", "model: a model that this site does not have"),
        ("takes_effect: bmc_reset", "takes_effect: reboot", "packages[0].takes_effect"),
        ("takes_effect: bmc_reset", "takes_efect: bmc_reset", "takes_effect"),
        ("HGX_FW_GPU_SXM_*", "BMC", "one package for BMC; BMC and GPUs both bring it"),
        ("budget_min: 60", "budget_min: 0", "packages[1].budget_min"),
        ("sha256: ", "sha256: x", "sha256"),
        (TEXT, "- a", "not a firmware bundle"),
        (TEXT, "", "not a firmware bundle"),
        (TEXT, "a: [", "lab.yaml"),
    ],
)
def test_a_faulty_bundle_is_named_with_its_place(site, old, new, message):
    text = TEXT.replace("1.4", '"1.4"').replace("2.0", '"2.0"')
    write(site, new if old == TEXT else text.replace(old, new, 1))
    with pytest.raises(BundleError, match=re.escape(message)):
        load_bundles(site)


def test_a_version_that_yaml_reads_as_a_number_is_refused(site):
    """2.10 and 2.1 are two versions and one number."""
    write(site, TEXT.replace("1.4", '"1.4"'))
    with pytest.raises(BundleError, match=r"packages\[0\]\.versions\.BMC"):
        load_bundles(site)


def test_two_bundles_of_one_model_are_refused_with_both_files(site):
    for name in ("a.yaml", "b.yaml"):
        write(site, TEXT.replace("1.4", '"1.4"').replace("2.0", '"2.0"'), name)
    with pytest.raises(BundleError, match=r"b\.yaml: a second bundle of lab-gpu-node, as .*a\.yaml"):
        load_bundles(site)


def test_a_previous_release_brings_the_same_items(site):
    sha = hashlib.sha256(IMAGE).hexdigest()
    previous = f"    previous: {{image: {{file: old.bin, sha256: {sha}}}, versions: {{BIOS: v1}}}}\n"
    text = TEXT.replace("1.4", '"1.4"').replace("2.0", '"2.0"')
    write(site, text.replace("    budget_min: 10\n", f"    budget_min: 10\n{previous}"))
    with pytest.raises(BundleError, match=r"previous: not a valid value[^$]*versions of the same items: BMC"):
        load_bundles(site)


@given(text=st.text(max_size=200))
def test_any_text_is_read_or_refused(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "x.yaml"
    path.write_text(text)
    with pytest.raises(BundleError):
        read_bundle(path, LAB)
