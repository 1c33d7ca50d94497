"""The whole site file as a data model: the one source of validation, documentation, JSON Schema and editor completion.

Attributes mirror the YAML keys exactly (``cooling.class`` is ``cooling.class_``, since ``class`` is a Python word).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from inventory.catalog import Catalog, load_catalog
from inventory.site.rules import RULES
from inventory.site.sections.acceptance import LIMITS_DOC, Attest, Limit, Validation
from inventory.site.sections.cooling import Cooling
from inventory.site.sections.credentials import Credentials
from inventory.site.sections.electrical import Electrical
from inventory.site.sections.networks import Addressing, Fabric, Inband, Media, Oob
from inventory.site.sections.power import Generator, Power, Ups
from inventory.site.sections.provisioning import Provisioning
from inventory.site.sections.purchase import Purchase
from inventory.site.sections.racks import Rack, Room
from inventory.site.sections.schedule import LEADTIME_ITEMS, LeadTime, Schedule
from inventory.site.sections.servers import Gpu, Server, ServiceNode
from inventory.site.sections.sharing import GpuSharing
from inventory.site.sections.software import Os, Scheduler
from inventory.site.sections.storage import Storage
from inventory.site.sections.timeouts import Timeouts
from inventory.site.sections.weather import Weather
from inventory.site.values import Section, Slug, Text, Tier, Version, absent
from inventory.site.yaml_source import Problem


class SiteModel(Section):
    """A site file: the intent for one cluster, from utility feed to go-live."""

    schema_version: Literal[1] = Field(description="Version of this format.")
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")] = Field(
        description="Site name: lower case, digits and hyphens; names its outputs and stack."
    )
    example: bool = Field(default=False, description="An example site can never go live.")
    based_on: tuple[Slug, ...] = Field(
        default=(),
        max_length=12,
        exclude_if=absent,
        description="Reference designs that give the keys which this file does not: files of inventory/references.",
    )
    confirmed: tuple[Text, ...] = Field(
        default=(),
        exclude_if=absent,
        description="Keys whose value, though it comes from a reference design or a computed size, is the site's own decision: "
        "electrical.utility, cooling.air.rise_k.",
    )
    gpu: Gpu = Field(description="The accelerator.")
    server: Server = Field(description="The GPU servers.")
    service_nodes: tuple[ServiceNode, ...] = Field(default=(), description="Servers that are not GPU servers.")
    fabric: Fabric = Field(description="The compute fabric.")
    inband: Inband = Field(description="The in-band Ethernet.")
    oob: Oob = Field(description="The management network.")
    media: Media = Field(description="Cables and transceivers.")
    rack: Rack = Field(description="The compute rack.")
    room: Room = Field(description="The data hall.")
    power: Power = Field(description="Distribution from the feeds to the outlets.")
    ups: Ups = Field(description="Uninterruptible power supply.")
    generator: Generator = Field(description="Standby generation.")
    electrical: Electrical | None = Field(
        default=None, description="The supply above the rack circuits; without it nothing above them is planned."
    )
    cooling: Cooling = Field(description="Heat removal.")
    weather: Weather | None = Field(
        default=None, description="A typical year, for economiser hours, water and energy; without it none of these."
    )
    storage: Storage = Field(description="Shared storage.")
    os: Os = Field(description="Operating system of the nodes.")
    provisioning: Provisioning = Field(
        default=Provisioning(),
        exclude_if=lambda value: value == Provisioning(),
        description="How servers get their operating system.",
    )
    versions: dict[Slug, Version] = Field(min_length=1, description="Pinned versions by component, in quotes (ERR-24).")
    scheduler: Scheduler = Field(description="Workload manager.")
    gpu_sharing: tuple[GpuSharing, ...] = Field(
        default=(), exclude_if=absent, description="GPU servers whose GPUs several pods share, on Kubernetes."
    )
    tiers: tuple[Tier, ...] = Field(min_length=1, max_length=3, description="Priority classes, highest first.")
    leadtimes: dict[Slug, LeadTime] = Field(
        min_length=1, description="Lead times by item: " + ", ".join(LEADTIME_ITEMS) + "."
    )
    schedule: Schedule = Field(description="When the cluster is needed.")
    purchase: Purchase = Field(default=Purchase(), description="Prices, owners, tranches and spares.")
    limits: dict[Slug, Limit] = Field(min_length=1, description=LIMITS_DOC)
    timeouts: Timeouts = Field(default=Timeouts(), description="How long drivers and checks wait, seconds.")
    attest: Attest = Field(description="Who may attest.")
    addressing: Addressing = Field(description="IPv4 prefixes.")
    credentials_given: Credentials | None = Field(
        default=None,
        alias="credentials",
        description="References to secrets; `bringup plan` works without them, what talks to a device asks for them.",
    )
    validation: Validation = Field(default=Validation(), description="What the checks may do.")
    lab: dict[Slug, str | int | float | bool] | None = Field(
        default=None, description="Hints for the embedded lab; nothing else reads them."
    )


def check(raw: Mapping[str, Any], catalog: Catalog | None = None, model: SiteModel | None = None) -> list[Problem]:
    """The problems that the rules see in a parsed site file; `model` is the file as a whole, where all its sections are valid."""
    valid = _valid_sections(raw) if model is None else _sections(model)
    known = catalog or load_catalog()
    return [
        problem
        for sections, function in RULES
        if all(name in valid for name in sections)
        for problem in function(known, *(valid[name] for name in sections))
    ]


def _sections(model: SiteModel) -> dict[str, Any]:
    """Value by key of the file."""
    return {field.alias or name: getattr(model, name) for name, field in SiteModel.model_fields.items()}


def _valid_sections(raw: Mapping[str, Any]) -> dict[str, Any]:
    valid: dict[str, Any] = {}
    for name, field in SiteModel.model_fields.items():
        key = field.alias or name
        if key not in raw:
            if not field.is_required():
                valid[key] = field.default
            continue
        try:
            valid[key] = _adapter(name).validate_python(raw[key], strict=True)
        except ValidationError:
            continue  # reported by the whole model's validation
    return valid


_ADAPTERS: dict[str, TypeAdapter[Any]] = {}


def _adapter(name: str) -> TypeAdapter[Any]:
    if name not in _ADAPTERS:
        _ADAPTERS[name] = TypeAdapter(SiteModel.model_fields[name].rebuild_annotation())
    return _ADAPTERS[name]
