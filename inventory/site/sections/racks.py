"""Racks and the data hall of a site file."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from inventory.catalog import Catalog
from inventory.site.rules import rule, unknown_slug
from inventory.site.sections.networks import Media
from inventory.site.sections.servers import Server
from inventory.site.values import Section, Slug
from inventory.site.yaml_source import Path, Problem


class NetworkRack(Section):
    """Racks of one kind without GPU servers, where they differ from the compute rack."""

    model: Slug = Field(description="Rack type slug in inventory/catalog/data/rack-types.")
    height_u: Annotated[int, Field(ge=1, le=60)] = Field(description="Usable height, rack units.")
    mass_limit_kg: Annotated[float, Field(ge=50, le=5000)] = Field(description="Permitted load of the rack, kilograms.")
    power_limit_kw: Annotated[float, Field(ge=1, le=600)] = Field(description="Permitted draw of the rack, kilowatts.")


class Rack(Section):
    """The compute rack and what may stand in it."""

    model: Slug = Field(description="Rack type slug in inventory/catalog/data/rack-types.")
    servers: Annotated[int, Field(ge=1, le=96)] = Field(description="GPU servers per rack.")
    height_u: Annotated[int, Field(ge=1, le=60)] = Field(description="Usable height, rack units.")
    mass_limit_kg: Annotated[float, Field(ge=50, le=5000)] = Field(description="Permitted load of the rack, kilograms.")
    power_limit_kw: Annotated[float, Field(ge=1, le=600)] = Field(description="Permitted draw of the rack, kilowatts.")
    network: NetworkRack | None = Field(
        default=None, description="Racks of switches and service nodes, where they differ; default: the same rack."
    )
    storage: NetworkRack | None = Field(
        default=None,
        description="Racks of storage that is bought (storage.block), where they differ; default: those of network.",
    )


class Room(Section):
    """The data hall."""

    rows: Annotated[int, Field(ge=1, le=10_000)] = Field(description="Rows of racks.")
    racks_per_row: Annotated[int, Field(ge=1, le=500)] = Field(description="Racks in one row.")
    rack_pitch_m: Annotated[float, Field(ge=0.4, le=2)] = Field(
        description="Distance of rack centres in a row, metres."
    )
    row_pitch_m: Annotated[float, Field(ge=1, le=20)] = Field(description="Distance of row centres, metres.")
    tray_height_m: Annotated[float, Field(ge=0, le=10)] = Field(
        description="Height of the cable tray over the floor, metres."
    )
    slack_m: Annotated[float, Field(ge=0, le=20)] = Field(description="Slack per cable, metres, both ends together.")
    altitude_m: Annotated[float, Field(ge=-450, le=5000)] = Field(
        description="Height over sea level, metres (air density)."
    )
    floor_load_kg_m2: Annotated[float, Field(ge=100, le=10_000)] = Field(
        description="Permitted floor load, kilograms per square metre."
    )
    aisle_min_m: Annotated[float, Field(ge=0.6, le=5)] | None = Field(
        default=None, description="Least clear width of an aisle, metres: doors, lifts, escape routes."
    )
    rpps_per_row: Annotated[int, Field(ge=0, le=20)] = Field(
        default=0, description="Places of racks that remote power panels take at the head of each row."
    )
    length_m: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        default=None,
        description="Clear length of the hall along its rows, wall to wall, metres; rows stand in its middle.",
    )
    width_m: Annotated[float, Field(gt=0, le=5000)] | None = Field(
        default=None, description="Clear width of the hall across its rows, wall to wall, metres."
    )
    walkway_min_m: Annotated[float, Field(ge=0.6, le=10)] | None = Field(
        default=None,
        description="Least clear width of the walkways around the rows, metres: at their ends with length_m, beside the "
        "outer ones with width_m.",
    )


@rule("server", "rack")
def system_is_known_and_filled(catalog: Catalog, server: Server, rack: Rack) -> Iterator[Problem]:
    if server.system is None:
        return
    if server.system not in catalog.systems:
        yield unknown_slug(
            ("server", "system"),
            server.system,
            list(catalog.systems),
            "rack-scale system",
            "inventory/catalog/data/systems",
        )
        return
    system = catalog.systems[server.system]
    trays, tray = system.count("compute"), system.part("compute")
    if tray is not None and server.model != tray.model:
        yield Problem(
            ("server", "model"),
            "not a tray of server.system",
            server.model,
            f"{tray.model}, the compute tray of {system.slug}",
            f"write {tray.model}, or name another system",
        )
    if server.count % trays:
        whole = -(-server.count // trays)
        yield Problem(
            ("server", "count"),
            "does not fill its rack-scale systems",
            f"{server.count}",
            f"a multiple of {trays}: {system.slug} is bought with {trays} trays",
            f"write {whole * trays} for {whole} systems",
        )
    if rack.servers != trays:
        yield Problem(
            ("rack", "servers"),
            "another number than the system holds",
            str(rack.servers),
            f"{trays} trays ({system.slug})",
            f"write {trays}",
        )
    if rack.model != system.rack:
        yield Problem(
            ("rack", "model"),
            "another rack than the system comes in",
            rack.model,
            f"{system.rack} ({system.slug})",
            f"write {system.rack}; racks of switches and service nodes go in rack.network",
        )
    shelves = system.count("shelf")
    if server.shelves is not None and server.shelves.count != shelves:
        yield Problem(
            ("server", "shelves", "count"),
            "another number than the system has",
            str(server.shelves.count),
            f"{shelves} ({system.slug})",
            f"write {shelves}, or name the right system",
        )


@rule("media", "rack")
def media_and_rack_are_known(catalog: Catalog, media: Media, rack: Rack) -> Iterator[Problem]:
    if media.reach_table not in catalog.media_tables:
        yield unknown_slug(
            ("media", "reach_table"),
            media.reach_table,
            list(catalog.media_tables),
            "media table",
            "inventory/catalog/data/media",
        )
    for path, given in ((("rack",), rack), (("rack", "network"), rack.network), (("rack", "storage"), rack.storage)):
        if given is not None:
            yield from _rack(catalog, path, given)


def _rack(catalog: Catalog, path: Path, rack: Rack | NetworkRack) -> Iterator[Problem]:
    if rack.model not in catalog.racks:
        yield unknown_slug(
            (*path, "model"), rack.model, list(catalog.racks), "rack type", "inventory/catalog/data/rack-types"
        )
        return
    entry = catalog.racks[rack.model]
    if rack.height_u > entry.u_height:
        yield Problem(
            (*path, "height_u"),
            "more than the rack has",
            str(rack.height_u),
            f"at most {entry.u_height} rack units ({entry.slug})",
            f"write {entry.u_height} or less",
        )
    if rack.mass_limit_kg > entry.max_weight:
        yield Problem(
            (*path, "mass_limit_kg"),
            "more than the rack carries",
            f"{rack.mass_limit_kg:g}",
            f"at most {entry.max_weight:g} kilograms ({entry.slug})",
            f"write {entry.max_weight:g} or less",
        )


@rule("room")
def panels_leave_room_in_a_row(catalog: Catalog, room: Room) -> Iterator[Problem]:
    if room.rpps_per_row >= room.racks_per_row:
        yield Problem(
            ("room", "rpps_per_row"),
            "panels on all places of a row",
            str(room.rpps_per_row),
            f"fewer than racks_per_row, {room.racks_per_row}",
            "lengthen the rows or take panels out",
        )
