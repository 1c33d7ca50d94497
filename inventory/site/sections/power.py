"""Power inside the hall of a site file: feeds, rack circuits, rack PDUs, UPS and generator."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from inventory.catalog import Catalog, Pdu
from inventory.site.messages import MISSING
from inventory.site.rules import SAME_VOLTAGE, device_of_kind, rule
from inventory.site.sections.servers import Server, supply_groups
from inventory.site.values import Feed, Percent, Section, Share, Slug
from inventory.site.yaml_source import Problem


class RackCircuit(Section):
    """The circuit that feeds one rack PDU or power shelf."""

    breaker_a: Annotated[float, Field(ge=6, le=1000)] = Field(description="Breaker rating, amperes.")
    phases: Literal[1, 3] = Field(description="Phases of the circuit; 3 where the section electrical is given.")


class OwnCircuit(Section):
    """The circuit that feeds a rack PDU of racks of one use, on as many phases as that of the others."""

    breaker_a: Annotated[float, Field(ge=6, le=1000)] = Field(description="Breaker rating, amperes.")


MOST_PDUS_PER_FEED = 4
"""Most PDUs of a rack on a feed."""


class RackPdu(Section):
    """The rack PDUs."""

    model: Slug = Field(description="Rack PDU slug in the catalogue.")
    per_feed: Annotated[int, Field(ge=1, le=MOST_PDUS_PER_FEED)] = Field(
        default=1, description="PDUs per rack on each feed."
    )


class OwnPdu(Section):
    """The rack PDUs of racks of one use, as many on each feed as in the others (`rack_pdu.per_feed`)."""

    model: Slug = Field(
        description="Rack PDU slug in the catalogue; phases and kind of outlet voltage as those of rack_pdu."
    )


RACK_USES = ("rack", "network", "storage")
"""Uses of racks in the keys of this section, in the order of capacity.space.placement: GPU servers, switches, storage."""


class Power(Section):
    """Distribution from the feeds to the outlets."""

    voltage_v: Annotated[float, Field(ge=100, le=1000)] = Field(
        description="Line-to-line voltage of the rack circuits, volts."
    )
    code: Literal["nec", "iec"] = Field(description="Electrical code that the derating comes from.")
    derating: Share = Field(description="Continuous-load share of a breaker: NEC 0.8, IEC sites up to 1.0.")
    feeds: tuple[Feed, ...] = Field(min_length=1, max_length=8, description="Independent feeds, such as [A, B].")
    pue: Annotated[float, Field(ge=1, le=3)] = Field(
        description="Facility power over IT power; the supply is planned with it where cooling.plant is not given."
    )
    overhead_pct: tuple[Percent, Percent] = Field(
        description="Planning overhead range on top of the IT load, percent: [low, high]."
    )
    power_factor: Annotated[float, Field(ge=0.5, le=1)] = Field(
        default=1.0, description="Power factor of the IT load; it holds behind the UPS, electrical.power_factor above."
    )
    profile: Literal["seed", "measured", "nameplate"] = Field(
        default="nameplate", description="Profile that circuits are judged at; anything but nameplate is a finding."
    )
    rack_circuit: RackCircuit = Field(description="The circuit behind each rack PDU.")
    shelf_circuit: RackCircuit | None = Field(
        default=None, description="The circuit (busway tap) behind each power shelf; mandatory with server.system."
    )
    network_circuit: OwnCircuit | None = Field(
        default=None,
        description="The circuit behind each rack PDU of racks without GPU servers and storage; default: rack_circuit.",
    )
    storage_circuit: OwnCircuit | None = Field(
        default=None,
        description="The circuit behind each rack PDU of racks that hold storage and no GPU servers; default: rack_circuit.",
    )
    rack_pdu: RackPdu = Field(description="The rack PDUs.")
    network_pdu: OwnPdu | None = Field(
        default=None,
        description="The rack PDUs of racks without GPU servers and storage; default: rack_pdu. Their breakers: network_circuit.",
    )
    storage_pdu: OwnPdu | None = Field(
        default=None,
        description="The rack PDUs of racks that hold storage and no GPU servers; default: rack_pdu. Their breakers: "
        "storage_circuit.",
    )

    def key_of(self, use: str, part: Literal["circuit", "pdu"]) -> str:
        """Key of this section that states the circuit or the PDUs of racks of a use (one of RACK_USES): rack_circuit or rack_pdu
        where the site gives that use none of its own.
        """
        own = f"{use}_{part}"
        return own if getattr(self, own) is not None else f"rack_{part}"

    def pdu_model(self, use: str) -> str:
        """Catalogue slug of the rack PDUs in racks of a use (one of RACK_USES)."""
        stated: RackPdu | OwnPdu = getattr(self, self.key_of(use, "pdu"))
        return stated.model

    def circuit(self, key: str) -> RackCircuit:
        """The circuit of a key of this section: rack_circuit, network_circuit, storage_circuit or shelf_circuit; that of the other
        racks where the site gives none.
        """
        given: RackCircuit | OwnCircuit | None = getattr(self, key)
        if given is None:
            return self.rack_circuit
        if isinstance(given, OwnCircuit):
            return RackCircuit(breaker_a=given.breaker_a, phases=self.rack_circuit.phases)
        return given


class Ups(Section):
    """Uninterruptible power supply."""

    module_kw: Annotated[float, Field(ge=1, le=5000)] = Field(description="Rating of one module, kilowatts.")
    redundancy: Literal["n", "n+1", "n+2", "2n"] = Field(description="Module redundancy per UPS block (ERR-45).")
    scope: Literal["it", "it_and_cooling"] = Field(description="What the UPS carries.")
    autonomy_min: Annotated[float, Field(ge=0, le=240)] = Field(description="Battery time at full load, minutes.")
    margin_s: Annotated[float, Field(ge=0, le=600)] = Field(
        default=30,
        description="Battery time left when the generators have started and taken over, seconds (ERR-18). Default: one failed "
        "crank of 15 s and the rest of 15 s after it (NFPA 110, 5.6.4.2).",
    )


class Generator(Section):
    """Standby generation."""

    present: bool = Field(description="Whether the site has generators; without them the risk is documented (ERR-18).")
    start_s: Annotated[float, Field(gt=0, le=600)] | None = Field(
        default=None, description="Time from loss of utility to load accepted, seconds; mandatory when present."
    )


@rule("server", "power")
def shelves_have_their_circuit(catalog: Catalog, server: Server, power: Power) -> Iterator[Problem]:
    path = ("power", "shelf_circuit")
    if server.system is not None and power.shelf_circuit is None:
        yield Problem(
            path,
            MISSING,
            "",
            f"breaker and phases of one power shelf's circuit, since server.system is {server.system}",
            "add 'shelf_circuit: {breaker_a: ..., phases: 3}' in power",
        )
    if server.shelves is not None and abs(server.shelves.input_v / power.voltage_v - 1) > SAME_VOLTAGE:
        yield Problem(
            ("server", "shelves", "input_v"),
            "another voltage than its circuit has",
            f"{server.shelves.input_v:g}",
            f"power.voltage_v, {power.voltage_v:g} volts",
            "correct one of the two: a shelf takes the line-to-line voltage of its circuit",
        )
    if server.system is None and power.shelf_circuit is not None:
        yield Problem(
            path,
            "a circuit without power shelves",
            f"{power.shelf_circuit.breaker_a:g} A",
            "no shelf_circuit while server.system is not set",
            "delete the key",
        )


@rule("server", "power")
def supplies_are_shared_among_the_feeds(catalog: Catalog, server: Server, power: Power) -> Iterator[Problem]:
    for key, group in supply_groups(server):
        split = group.split_by_feed
        total = sum(split.values())
        if total != group.count:
            yield Problem(
                ("server", key, "split_by_feed"),
                f"does not add up to server.{key}.count",
                f"{' + '.join(map(str, split.values()))} = {total}",
                f"{group.count} supplies in all",
                "correct the split or the count",
            )
        for feed in split:
            if feed not in power.feeds:
                yield Problem(
                    ("server", key, "split_by_feed", feed),
                    "a feed that power.feeds does not have",
                    feed,
                    f"one of {', '.join(power.feeds)}",
                    f"add {feed} to power.feeds or move its supplies",
                )


@rule("power")
def feeds_and_overhead_make_sense(catalog: Catalog, power: Power) -> Iterator[Problem]:
    for feed in sorted({f for f in power.feeds if power.feeds.count(f) > 1}):
        yield Problem(
            ("power", "feeds"),
            "a feed given twice",
            f"[{', '.join(power.feeds)}]",
            "each feed once",
            f"delete one {feed}; two feeds of one name are one feed",
        )
    low, high = power.overhead_pct
    if low > high:
        yield Problem(
            ("power", "overhead_pct"),
            "a range that ends before it starts",
            f"[{low:g}, {high:g}]",
            "[low, high]",
            f"write [{high:g}, {low:g}]",
        )
    if power.code == "nec" and power.derating > 0.8:
        yield Problem(
            ("power", "derating"),
            "more than the code allows",
            f"{power.derating:g}",
            "at most 0.8 under NEC: continuous load is 80 % of the breaker (RC-085a)",
            "write 0.8, or code: iec where IEC rules apply",
        )


@rule("power")
def rack_pdus_are_alike(catalog: Catalog, power: Power) -> Iterator[Problem]:
    for use in RACK_USES:
        stated: RackPdu | OwnPdu | None = getattr(power, f"{use}_pdu")
        if stated is None:
            continue
        path = ("power", f"{use}_pdu", "model")
        yield from device_of_kind(catalog, path, stated.model, "pdu")
        own, common = (catalog.devices.get(slug) for slug in (stated.model, power.rack_pdu.model))
        facts, others = (device.bringup.pdu if device else None for device in (own, common))
        if facts is None or others is None:
            continue
        if facts.phases != others.phases or not _same_legs(facts, others):
            yield Problem(
                path,
                "a PDU with other phases or outlets than those of the other racks",
                f"{_words(facts)} ({stated.model})",
                f"{_words(others)}, as {power.rack_pdu.model} of power.rack_pdu",
                "name a PDU of the same phases whose outlets lie as those do; phase balance and line currents are of one kind",
            )


def _same_legs(one: Pdu, other: Pdu) -> bool:
    """Whether the outlets of two PDUs have the same share of the voltage between lines."""
    return abs(one.outlet_v / one.voltage_v / (other.outlet_v / other.voltage_v) - 1) <= SAME_VOLTAGE


def _words(facts: Pdu) -> str:
    return f"{facts.phases} phase{'s' if facts.phases > 1 else ''}, outlets of {facts.outlet_v:g} V at {facts.voltage_v:g} V"


@rule("generator")
def generator_start_goes_with_presence(catalog: Catalog, generator: Generator) -> Iterator[Problem]:
    path = ("generator", "start_s")
    if generator.present and generator.start_s is None:
        yield Problem(
            path,
            MISSING,
            "",
            "seconds from loss of utility to load accepted, since present is true",
            "add 'start_s:' in generator (the UPS must ride through it, ERR-18)",
        )
    if not generator.present and generator.start_s is not None:
        yield Problem(
            path,
            "a start time without a generator",
            f"{generator.start_s:g}",
            "no start_s while present is false",
            "delete the key, or write present: true",
        )
