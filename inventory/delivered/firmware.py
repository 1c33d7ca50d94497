"""Firmware bundles: what a site has qualified for each model of server, as files in `firmware/` beside its site file.

    bundles = load_bundles(site)               # {"dgx-h100": Bundle(...)}
    item = bundle.packages[0].items(inventory) # {"HostBMC_0": ("24.01.05", "24.09.17")}: what runs, what is wanted

A bundle is a list of packages in the order in which they are installed. A package is one image with the versions that it
brings, by the names or ids of the BMC's firmware inventory; `*` stands for any text, so that `HGX_FW_GPU_SXM_*` is the VBIOS
of all GPUs. "latest" is no version: two servers flashed on two days would differ.
"""

import fnmatch
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError, ValidationInfo, field_validator

from inventory.paths import open_file, read_file
from inventory.site import Site, messages, yaml_source
from inventory.site.loading import shown_path
from inventory.site.values import Section
from inventory.site.yaml_source import Problem

FIRMWARE_DIR = "firmware"
MAX_BYTES = 1 << 20
READ_BYTES = 1 << 20
Effect = Literal["at_once", "bmc_reset", "host_restart", "ac_cycle"]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._()/+-]{0,99}$")]
Pattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9*][A-Za-z0-9 ._()/*+-]{0,99}$")]
Version = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f][^\x00-\x1f]{0,99}$")]
Setting = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{1,63}$")]
Number = Annotated[int, Field(strict=True, ge=0, lt=2**32)]
NO_VERSIONS = ("latest", "newest", "current", "any", "*")


class Image(Section):
    """The file of a package; its hash is compared before it is sent."""

    file: str = Field(description="path of the image; a relative one starts in the folder of the bundle")
    sha256: str = Field(description="SHA-256 of the file, 64 hexadecimal digits", pattern=r"^[0-9a-f]{64}$")
    folder: Path | None = Field(default=None, exclude=True, description="set by the reader")

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return (self.folder or Path()) / self.file

    def fault(self) -> str:
        """What is wrong with the file, '' for one with the stated hash."""
        digest = hashlib.sha256()
        try:
            with open_file(self.path) as stream:
                while piece := stream.read(READ_BYTES):
                    digest.update(piece)
        except OSError as error:
            return f"{self.path} cannot be read ({error.strerror}): put the maker's image there"
        found = digest.hexdigest()
        return "" if found == self.sha256 else f"{self.path} has SHA-256 {found}, the bundle says {self.sha256}"


class Release(Section):
    """An image and what it brings."""

    image: Image = Field(description="the maker's file and its hash")
    versions: dict[Pattern, Version] = Field(
        description="version by name or id in the BMC's firmware inventory", min_length=1, max_length=100
    )

    @field_validator("versions")
    @classmethod
    def _are_versions(cls, versions: dict[str, str]) -> dict[str, str]:
        for item, version in versions.items():
            if version.lower() in NO_VERSIONS:
                raise ValueError(f"{item}: the version that was qualified; {version!r} is another one on another day")
        return versions

    def items(self, inventory: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """{item of the inventory: (version that runs, version of this release)}."""
        return {
            item: (runs, version)
            for item, runs in inventory.items()
            if (version := next((v for p, v in self.versions.items() if fnmatch.fnmatchcase(item, p)), None))
        }

    def behind(self, inventory: Mapping[str, str]) -> dict[str, str]:
        """{item: version that runs} of the items that do not run this release's version."""
        return {item: runs for item, (runs, wanted) in self.items(inventory).items() if runs != wanted}

    def absent(self, inventory: Mapping[str, str]) -> list[str]:
        """Patterns that no item of the inventory fits."""
        return [p for p in self.versions if not any(fnmatch.fnmatchcase(item, p) for item in inventory)]


class Package(Release):
    """One step of a bundle."""

    name: Name = Field(description="what people call it, such as BMC, BIOS or HGX baseboard")
    takes_effect: Effect = Field(
        description="when the new version runs: at_once, bmc_reset, host_restart, or ac_cycle (all outlets off)"
    )
    budget_min: int = Field(description="longest time for the installation, minutes", ge=1, le=240)
    previous: Release | None = Field(
        default=None, description="the release before it, which is installed again if this one fails"
    )

    @field_validator("previous")
    @classmethod
    def _of_the_same_items(cls, previous: Release | None, given: ValidationInfo) -> Release | None:
        versions = given.data.get("versions", {})
        if previous and versions and set(previous.versions) != set(versions):
            raise ValueError(f"versions of the same items: {', '.join(versions)}")
        return previous


class Bundle(Section):
    """What one model of server must run. `source`: who says that these versions go together."""

    bundle: Name = Field(description="the maker's name or number of the bundle")
    model: str = Field(description="the server's entry in the catalogue")
    source: str = Field(description="where the bundle is published, such as release notes with date", min_length=3)
    packages: tuple[Package, ...] = Field(description="in the order of installation", min_length=1, max_length=50)
    adapter_settings: dict[Setting, Number] = Field(
        default_factory=dict,
        description="settings in the firmware of its InfiniBand adapters: number by name in mlxconfig, such as LINK_TYPE_P1: 1",
        max_length=50,
    )

    @field_validator("packages", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("packages")
    @classmethod
    def _an_item_has_one_version(cls, packages: tuple[Package, ...]) -> tuple[Package, ...]:
        seen: dict[str, str] = {}
        for package in packages:
            for item in package.versions:
                if item in seen:
                    raise ValueError(f"one package for {item}; {seen[item]} and {package.name} both bring it")
                seen[item] = package.name
        return packages

    def faults(self, inventory: Mapping[str, str], judged: Callable[[Package], bool]) -> list[str]:
        """What differs between what runs {item: version} and the packages for which `judged` holds, a sentence each."""
        return [
            fault
            for package in self.packages
            if judged(package)
            for fault in (
                *(
                    f"{item} {runs}, bundle {self.bundle} ({package.name}) has {wanted}"
                    for item, (runs, wanted) in package.items(inventory).items()
                    if runs != wanted
                ),
                *(
                    f"the BMC lists no {pattern}, which bundle {self.bundle} ({package.name}) names"
                    for pattern in package.absent(inventory)
                ),
            )
        ]


class BundleError(Exception):
    """What is wrong with the bundles of a site; the message names file, place and way out."""


def load_bundles(site: Site) -> dict[str, Bundle]:
    """The bundles of a site by model; {} for a site without `firmware/`. BundleError for what cannot be used."""
    found: dict[str, Bundle] = {}
    places: dict[str, Path] = {}
    for path in sorted((site.dir / FIRMWARE_DIR).glob("*.yaml")):
        bundle = read_bundle(path, site)
        if bundle.model in found:
            raise BundleError(f"{path}: a second bundle of {bundle.model}, as {places[bundle.model]}; keep one of them")
        found[bundle.model], places[bundle.model] = bundle, path
    return found


def bundle_hashes(site: Site) -> dict[str, str]:
    """SHA-256 of each bundle's file, by its name."""
    return {
        path.name: hashlib.sha256(read_file(path, MAX_BYTES)).hexdigest()
        for path in sorted((site.dir / FIRMWARE_DIR).glob("*.yaml"))
    }


def read_bundle(path: Path, site: Site) -> Bundle:
    """One bundle. BundleError for a file that is none, or of a model that the site does not have."""
    shown = shown_path(path)
    try:
        raw = read_file(path, MAX_BYTES)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise BundleError(messages.render(shown, [messages.unreadable(error.strerror or str(error))])) from None
    except UnicodeDecodeError as error:
        raise BundleError(messages.render(shown, [messages.not_utf8(raw, error)])) from None
    document = yaml_source.parse(text)
    problems = list(document.problems) or list(_not_a_bundle(document.value))
    bundle = None
    if not problems:
        try:
            bundle = Bundle.model_validate(document.value)
        except ValidationError as error:
            problems = list(messages.from_validation(error, Bundle, document))
        else:
            problems = list(_other_model(bundle, site))
    if bundle is None or problems:
        raise BundleError(messages.render(shown, messages.ordered(problems, document)))
    return _in_folder(bundle, path.parent)


def _not_a_bundle(value: object) -> Iterator[Problem]:
    if not isinstance(value, dict):
        expected = "keys bundle, model, source and packages"
        yield Problem((), "not a firmware bundle", messages.shown(value), expected, "see docs/firmware.md")


def _other_model(bundle: Bundle, site: Site) -> Iterator[Problem]:
    models = server_models(site)
    if bundle.model not in models:
        yield Problem(
            ("model",),
            "a model that this site does not have",
            bundle.model,
            f"one of {', '.join(models)}",
            "write the server's entry in the catalogue",
        )


def server_models(site: Site) -> list[str]:
    """Entries of the catalogue that the site's servers are of, GPU servers first."""
    return list(dict.fromkeys([site.server.model, *(group.model for group in site.service_nodes)]))


def _in_folder(bundle: Bundle, folder: Path) -> Bundle:
    def placed(release: Any) -> Any:
        change: dict[str, Any] = {"image": release.image.model_copy(update={"folder": folder})}
        if getattr(release, "previous", None) is not None:
            change["previous"] = placed(release.previous)
        return release.model_copy(update=change)

    return bundle.model_copy(update={"packages": tuple(placed(package) for package in bundle.packages)})
