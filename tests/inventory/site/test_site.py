"""Loading site files: by name, by path, their hashes, and their schema."""

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml
from pydantic import BaseModel, ValidationError

from inventory.paths import site_dir
from inventory.site import Site, SiteError, json_schema, load_site, parse_site, site_names
from inventory.site.model import SiteModel
from inventory.site.values import Section
from tests.full_sites import full_text

LAB = full_text("lab")


@pytest.mark.parametrize("name", site_names())
def test_every_shipped_site_is_valid_and_an_example(name: str) -> None:
    site = load_site(name)
    assert site.name == name
    assert site.example, "a shipped site must never be able to go live"


def test_shipped_sites_are_those_of_the_first_release() -> None:
    assert {"lab", "h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"} <= set(site_names())


def test_a_site_is_found_by_name_by_file_and_by_folder() -> None:
    assert load_site("lab") == load_site(site_dir("lab")) == load_site(site_dir("lab") / "site.yaml")


def test_a_copy_elsewhere_keeps_its_own_folder(tmp_path: Path) -> None:
    copy = tmp_path / "second"
    shutil.copytree(site_dir("lab"), copy)
    (copy / "site.yaml").write_text(LAB.replace("name: lab", "name: second", 1), encoding="utf-8")
    site = load_site(copy / "site.yaml")
    assert (site.name, site.dir, site.path) == ("second", copy, copy / "site.yaml")


def test_a_relative_path_is_found_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(site_dir("lab") / "site.yaml", tmp_path / "mine.yaml")
    monkeypatch.chdir(tmp_path)
    assert load_site("mine.yaml").path == tmp_path / "mine.yaml"


def test_an_unknown_name_gives_the_nearest_site() -> None:
    with pytest.raises(SiteError, match=r"no such site(.|\n)*nearest: +h100-1000-ib"):
        load_site("h100-1000")


def test_a_path_without_a_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="no such file"):
        load_site(tmp_path / "nothing.yaml")


def test_a_file_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_bytes(b"schema_version: 1\nname: caf\xe9\n")
    with pytest.raises(SiteError, match=r"not UTF-8 text \(line 2\)"):
        load_site(path)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + LAB.encode())
    assert load_site(path).name == "lab"


def test_windows_line_ends_do_no_harm() -> None:
    assert parse_site(LAB.replace("\n", "\r\n")).slices() == parse_site(LAB).slices()


def test_messages_name_the_path_as_seen_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site.yaml").write_text("name: x\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SiteError, match=r"\Asite\.yaml: "):
        load_site(tmp_path)


def test_a_site_cannot_be_changed() -> None:
    site = parse_site(LAB)
    with pytest.raises(ValidationError):
        site.name = "other"


def test_the_secret_of_a_bad_file_appears_nowhere_in_the_error() -> None:
    clear = "hunter2-in-clear"
    text = LAB.replace('password: "file:/var/lib/bringup/labs/lab/secrets/bmc_password_{device}"', f"password: {clear}")
    assert clear in text
    with pytest.raises(SiteError) as caught:
        parse_site(text)
    assert clear not in str(caught.value)
    assert clear not in repr(caught.value.problems)


class TestSlices:
    def test_one_per_top_level_key(self) -> None:
        site = parse_site(LAB)
        keys = {field.alias or name for name, field in Site.model_fields.items()}
        assert set(site.slices()) == keys - {"based_on", "confirmed", "gpu_sharing", "provisioning"}, (
            "the first two are no values of the site; the others have their default and are younger than sites that are accepted"
        )

    def test_a_way_of_provisioning_that_is_written_has_one_of_its_own(self) -> None:
        changed = parse_site(LAB + "provisioning: {link_gbps: 10}\n").slices()
        assert set(changed) - set(parse_site(LAB).slices()) == {"provisioning"}

    def test_comments_order_and_notation_do_not_matter(self) -> None:
        text = LAB.replace("pue: 1.3", "pue: 1.30  # measured").replace("nameplate_w: 10200", "nameplate_w: 1.02e+4")
        assert parse_site(text).slices() == parse_site(LAB).slices()

    def test_a_default_written_out_does_not_matter(self) -> None:
        assert parse_site(LAB.replace("  power_factor: 1.0\n", "")).slices() == parse_site(LAB).slices()

    def test_only_the_changed_slice_changes(self) -> None:
        before, after = parse_site(LAB).slices(), parse_site(LAB.replace("pue: 1.3", "pue: 1.4")).slices()
        assert {key for key in before if before[key] != after[key]} == {"power"}


def every_model(base: type[BaseModel]) -> list[type[BaseModel]]:
    below = [model for child in base.__subclasses__() for model in every_model(child)]
    return [base, *below]


class TestJsonSchema:
    @pytest.mark.parametrize("name", site_names())
    def test_accepts_every_shipped_site(self, name: str) -> None:
        jsonschema.Draft202012Validator(json_schema()).validate(load_site(name).model_dump(mode="json", by_alias=True))

    def test_refuses_an_unknown_key(self) -> None:
        values = json.loads(parse_site(LAB).model_dump_json(by_alias=True)) | {"gpus": {}}
        assert not jsonschema.Draft202012Validator(json_schema()).is_valid(values)

    def test_every_field_is_described(self) -> None:
        models = every_model(Section)
        assert SiteModel in models
        bare = [
            f"{m.__name__}.{name}" for m in models for name, field in m.model_fields.items() if not field.description
        ]
        assert bare == []


# The keys that a site file must have.
MANDATORY = [
    "gpu.sku",
    "gpu.form_factor",
    "gpu.tdp_w",
    "server.count",
    "server.power.seed_w",
    "server.power.measured_w",
    "server.power.nameplate_w",
    "server.psu.count",
    "server.psu.rating_w",
    "server.psu.split_by_feed",
    "server.psu.input_v",
    "server.nic.ports",
    "server.nic.rate_gbps",
    "server.nic.pcie_gen",
    "fabric.kind",
    "fabric.radix",
    "fabric.bisection",
    "fabric.rails",
    "fabric.unit_nodes",
    "media.reach_table",
    "power.voltage_v",
    "power.code",
    "power.derating",
    "power.feeds",
    "power.pue",
    "power.overhead_pct",
    "ups.module_kw",
    "ups.redundancy",
    "ups.scope",
    "ups.autonomy_min",
    "generator.present",
    "cooling.kind",
    "cooling.class",
    "cooling.n_plus",
    "cooling.supply_c",
    "cooling.dewpoint_c",
    "storage.kind",
    "storage.checkpoint.bytes_per_param",
    "storage.checkpoint.stall_s",
    "os.name",
    "os.version",
    "os.eol_date",
    "versions",
    "scheduler.kind",
    "tiers",
    "leadtimes",
    "limits",
    "attest.roles",
]


COMPLETED = {
    "gpu.form_factor": "catalogue",
    "gpu.tdp_w": "catalogue",
    "server.power.seed_w": "catalogue",
    "server.power.measured_w": "catalogue",
    "server.power.nameplate_w": "catalogue",
    "server.psu.count": "catalogue",
    "server.psu.rating_w": "catalogue",
    "server.psu.split_by_feed": "computed",
    "server.psu.input_v": "computed",
    "server.nic.ports": "catalogue",
    "server.nic.rate_gbps": "catalogue",
    "server.nic.pcie_gen": "catalogue",
    "fabric.radix": "catalogue",
    "fabric.rails": "computed",
    "power.pue": "computed",
}
"""Mandatory keys that catalogue or planner give where the file does not, and the origin that they then have."""


@pytest.mark.parametrize("dotted", MANDATORY)
def test_a_mandatory_key_cannot_be_left_out(dotted: str) -> None:
    values = yaml.safe_load(LAB)
    *parents, last = dotted.split(".")
    target = values
    for parent in parents:
        target = target[parent]
    del target[last]
    if dotted in COMPLETED:
        origin = parse_site(yaml.safe_dump(values)).effective.origin(tuple(dotted.split(".")))
        assert origin is not None
        assert origin.kind == COMPLETED[dotted]
        assert origin.source
        return
    with pytest.raises(SiteError) as caught:
        parse_site(yaml.safe_dump(values))
    missing = {".".join(map(str, p.path)) for p in caught.value.problems if p.what == "a mandatory key is missing"}
    assert dotted in missing
