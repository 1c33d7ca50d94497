"""The matrix of NVIDIA's versions: what goes together, what the packages are called."""

import pytest

from inventory.gpu_stack import branch, load_stack, release
from inventory.site import load_site, site_names

PINS = {"driver": "580.95.05", "fabricmanager": "580.95.05", "cuda": "13.0", "nccl": "2.28.3"}


@pytest.mark.parametrize("name", site_names())
def test_a_shipped_site_pins_versions_that_go_together_and_have_packages(name):
    site = load_site(name)
    assert load_stack().contradictions(site.versions) == []
    if "driver" in site.versions:
        assert load_stack().packages(site.os.key, site.versions)


def test_pins_that_go_together_have_no_contradiction():
    assert load_stack().contradictions(PINS) == []
    assert load_stack().contradictions({**PINS, "cuda": "12.4"}) == []
    assert load_stack().contradictions({"frr": "8.4.4"}) == []


@pytest.mark.parametrize(
    ("pin", "value", "expected"),
    [
        ("cuda", "13.1", "cuda 13.1, expected at most 13.0 with driver 580.95.05"),
        ("cuda", "13", "cuda 13, expected MAJOR.MINOR, such as 13.0"),
        ("fabricmanager", "580.82.07", "fabricmanager 580.82.07, expected 580.95.05, as the driver"),
    ],
)
def test_a_pin_that_does_not_go_with_the_driver_is_named(pin, value, expected):
    (found,) = load_stack().contradictions({**PINS, pin: value})
    assert found.pin == pin
    assert str(found).startswith(expected)


@pytest.mark.parametrize("driver", ["999.1.1", "x", "440.33.01"])
def test_a_driver_branch_that_the_matrix_does_not_know_is_refused(driver):
    (found,) = load_stack().contradictions({"driver": driver})
    assert "a branch that the matrix knows: 535" in str(found)


def test_debian_packages_carry_the_pins():
    packages = load_stack().packages("debian-12", PINS)
    assert packages["libnvidia-ml1"] == packages["nvidia-fabricmanager"] == "580.95.05"
    assert packages["cuda-toolkit-13-0"] == ""
    assert packages["libnccl2"] == "2.28.3"
    assert not any("{" in name for name in packages)


def test_ubuntu_packages_name_the_branch_of_the_driver():
    assert load_stack().packages("ubuntu-24.04", PINS)["libnvidia-compute-580"] == "580.95.05"


def test_a_site_without_a_driver_pin_gets_no_packages():
    assert load_stack().packages("debian-12", {"frr": "8.4.4"}) == {}


@pytest.mark.parametrize(("system", "driver"), [("rocky-9", "580.95.05"), ("ubuntu-24.04", "590.44.01")])
def test_a_system_or_branch_without_package_names_is_refused(system, driver):
    with pytest.raises(LookupError, match=r"gpu_stack\.yaml names no .*packages"):
        load_stack().packages(system, {"driver": driver})


def test_every_repository_has_a_key_with_its_whole_fingerprint():
    for entries in load_stack().repositories_of.values():
        for entry in entries:
            assert len(entry["fingerprint"]) == 40
            assert entry["uris"].startswith("https://")
            assert entry["key_url"].startswith("https://")


def test_versions_are_taken_apart():
    assert (branch("580.95.05"), branch("none")) == (580, 0)
    assert (release("13.0"), release("12.8.1")) == ((13, 0), (12, 8))
    with pytest.raises(ValueError, match="MAJOR.MINOR"):
        release("thirteen")
