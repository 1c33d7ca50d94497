"""The supply above the rack circuits of a site file, from the grid to the panels."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from inventory.catalog import Catalog
from inventory.site.messages import MISSING
from inventory.site.rules import SAME_VOLTAGE, rule
from inventory.site.sections.power import Generator, Power, Ups
from inventory.site.sections.servers import Server
from inventory.site.values import Feed, Section, Share, Slug, Text, absent
from inventory.site.yaml_source import Problem

RISE_PER_K = {"copper": 0.00393, "aluminium": 0.00403}
"""Resistance that a conductor gains per kelvin, as a share of that at 20 C (IEC 60028, IEC 60889; NEC chapter 9 table 8 gives
the same of that at 75 C: 0.00323 and 0.00330)."""


class Conductor(Section):
    """A conductor by its impedance, so that any table of any code fits."""

    size: Text = Field(description="Size as the drawing says it, such as '6 AWG Cu' or '16 mm2 Cu'.")
    r_ohm_km: Annotated[float, Field(gt=0, le=50)] = Field(
        description="Resistance of one conductor at temperature_c, ohms per kilometre: of losses and voltage drop. The largest "
        "fault current takes that at 20 C (IEC 60909-0), which follows from it."
    )
    temperature_c: Annotated[float, Field(ge=20, le=250)] = Field(
        default=75.0,
        description="Working temperature that r_ohm_km holds at, degrees Celsius; NEC chapter 9 table 9: 75.",
    )
    material: Literal["copper", "aluminium"] = Field(
        default="copper", description="Metal of the conductor: how its resistance grows with temperature."
    )
    x_ohm_km: Annotated[float, Field(ge=0, le=5)] = Field(description="Reactance, ohms per kilometre.")
    length_m: Annotated[float, Field(gt=0, le=5000)] | None = Field(
        default=None,
        description="Length, metres; without it rack circuits are routed from the place of their panel, or from the busway "
        "over their row.",
    )
    source: Text = Field(description="Table or data sheet of the impedance.")
    ampacity_a: Annotated[float, Field(gt=0, le=10_000)] | None = Field(
        default=None,
        description="Current that it carries continuously as it is laid, amperes: the table's figure derated for ambient "
        "temperature, grouping and terminations; without it a finding says that nobody judged it.",
    )
    ampacity_source: Text | None = Field(
        default=None, description="Table of the ampacity and its derating; mandatory with ampacity_a."
    )

    @property
    def r20_ohm_km(self) -> float:
        """Resistance at 20 C, ohms per kilometre."""
        return self.r_ohm_km / (1 + RISE_PER_K[self.material] * (self.temperature_c - 20))


MOST_INSTALLED = 200
"""Most of a kind of equipment that a feed may have standing there."""
MOST_MODULES = 20
"""Most modules of a UPS block."""
Installable = Annotated[int, Field(ge=1, le=MOST_INSTALLED)]


class TransformerType(Section):
    """Transformers of one kind."""

    kva: Annotated[float, Field(ge=10, le=100_000)] = Field(description="Rated power, kilovolt-amperes.")
    uk_pct: Annotated[float, Field(gt=0, le=30)] = Field(description="Short-circuit voltage, percent.")
    load_loss_kw: Annotated[float, Field(gt=0, le=1000)] = Field(
        description="Losses at rated current, kilowatts; they also give the resistance."
    )
    no_load_kw: Annotated[float, Field(ge=0, le=500)] = Field(description="Losses without load, kilowatts.")
    source: Text = Field(description="Data sheet or standard of these figures.")


class Installed(Section):
    """Equipment of one kind, of which some may stand there already."""

    installed: Installable | None = Field(
        default=None,
        exclude_if=absent,
        description="How many stand there already on each feed, spare ones included; default: as many as the load needs.",
    )
    installed_by_feed: dict[Feed, Installable] = Field(
        default={},
        exclude_if=absent,
        description="The same for single feeds, where they differ; other feeds follow `installed`.",
    )

    def standing(self, feed: str) -> int | None:
        """How many stand there on `feed`; None where the load decides."""
        return self.installed_by_feed.get(feed, self.installed)


class MainTransformers(TransformerType, Installed):
    """Transformers from medium voltage to the switchboards, one to a board; installed ones stand with their board."""

    n_plus: Annotated[int, Field(ge=0, le=4)] = Field(
        default=0, description="Spare transformers per feed, which a board is switched to when its own is lost."
    )


class Switchgear(Section):
    """Switchgear of one voltage level."""

    rating_a: Annotated[float, Field(ge=50, le=10_000)] = Field(description="Rated current of its busbar, amperes.")
    rating_ka: Annotated[float, Field(gt=0, le=300)] = Field(
        description="Rated short-circuit breaking and withstand current, kiloamperes."
    )
    peak_ka: Annotated[float, Field(gt=0, le=700)] | None = Field(
        default=None,
        description="Rated making and peak withstand current, kiloamperes; default: the multiple of rating_ka that IEC 61439-1 "
        "table 7, at medium voltage IEC 62271-1, gives.",
    )
    continuous: Share = Field(
        default=1.0, description="Share of rating_a that it carries continuously (100 %-rated breakers: 1)."
    )


class UtilityService(Section):
    """The supply that the grid company gives."""

    voltage_kv: Annotated[float, Field(ge=0.4, le=400)] = Field(
        description="Line-to-line voltage of the intake and of the site's medium voltage, kilovolts."
    )
    services: Annotated[int, Field(ge=1, le=8)] = Field(
        default=1, description="Independent lines of the grid company; the feeds take them in turn."
    )
    tie: bool = Field(
        default=False, description="Whether a feed's intake is switched to another line when its own is lost."
    )
    firm_mva: Annotated[float, Field(gt=0, le=5000)] = Field(
        description="Firm capacity of all lines together with one of them lost, megavolt-amperes."
    )
    growth_pct: Annotated[float, Field(ge=0, le=500)] = Field(
        default=0, description="Margin for growth that the firm capacity has to leave, percent of today's load."
    )
    fault_mva: Annotated[float, Field(gt=0, le=100_000)] = Field(
        description="Short-circuit power at the intake, megavolt-amperes."
    )
    x_over_r: Annotated[float, Field(gt=0, le=200)] = Field(description="X/R of the grid at the intake.")
    max_step_mw: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        default=None, description="Largest sudden change of load that the grid company permits, megawatts."
    )
    source: Text = Field(description="Utility letter or contract of these figures.")


class UpsBlocks(Installed):
    """UPS blocks; module size, redundancy and battery time stand in `ups`."""

    modules_per_block: Annotated[int, Field(ge=1, le=MOST_MODULES)] | None = Field(
        default=None,
        exclude_if=absent,
        description="Modules of each block, redundant ones included. Default: of each block as many as its load needs, up to "
        "`most_modules`; of blocks that stand there already, `most_modules`.",
    )
    most_modules: Annotated[int, Field(ge=1, le=MOST_MODULES)] | None = Field(
        default=None,
        exclude_if=absent,
        description="Modules that a block has room for, redundant ones included; mandatory without `modules_per_block`.",
    )
    permitted_load: Share = Field(default=1.0, description="Share of the needed modules' rating that may be used.")
    efficiency: Annotated[float, Field(ge=0.5, le=1)] = Field(description="Output over input at the working load.")
    max_step_pct: Annotated[float, Field(gt=0, le=100)] | None = Field(
        default=None, description="Largest load step that the block takes within its voltage limits, percent of rating."
    )
    rating_ka: Annotated[float, Field(gt=0, le=300)] | None = Field(
        default=None,
        description="Short-circuit current that input, bypass and output of a block withstand, kiloamperes; without it a "
        "finding says that nobody judged it.",
    )
    source: Text = Field(description="Data sheet of these figures.")

    @property
    def frame_modules(self) -> int:
        """Modules of a full block: those of each block where the site says so, else those that it has room for."""
        return self.modules_per_block or self.most_modules or 1


class Generators(Installed):
    """Generators, one plant to a feed; whether there are any, and their start, stands in `generator`."""

    kw: Annotated[float, Field(ge=10, le=20_000)] = Field(description="Rating of one generator, kilowatts.")
    n_plus: Annotated[int, Field(ge=0, le=4)] = Field(description="Spare generators of each plant.")
    transfer_s: Annotated[float, Field(ge=0, le=300)] = Field(
        description="Time of the transfer switch after the generators are ready, seconds."
    )
    max_step_pct: Annotated[float, Field(gt=0, le=100)] | None = Field(
        default=None, description="Largest load step within the frequency limits, percent of rating (ISO 8528-5)."
    )
    fuel_h: Annotated[float, Field(gt=0, le=1000)] = Field(description="Fuel on site at the planned load, hours.")
    litres_per_kwh: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.27, description="Fuel for one kilowatt-hour, litres (a data sheet's figure at 75 % load)."
    )
    source: Text = Field(description="Data sheet of these figures.")


class Panels(Section):
    """Remote power panels or runs of busway: the last distribution before the rack circuits."""

    kind: Literal["rpp", "busway"] = Field(description="Panel with branch breakers, or busway with tap-off boxes.")
    rating_a: Annotated[float, Field(ge=50, le=6000)] = Field(description="Main breaker or busway, amperes.")
    rating_ka: Annotated[float, Field(gt=0, le=300)] = Field(description="Rated short-circuit current, kiloamperes.")
    peak_ka: Annotated[float, Field(gt=0, le=700)] | None = Field(
        default=None,
        description="Rated peak withstand current, kiloamperes; default: the multiple of rating_ka in IEC 61439-1 table 7.",
    )
    circuits: Annotated[int, Field(ge=1, le=400)] = Field(
        description="Rack circuits or tap-offs that one has room for."
    )
    feeder: Conductor = Field(
        description="Its feeder from the UPS block or the PDU transformer, with its length; of busway the same conductor runs "
        "on over the row, which follows from the racks."
    )
    width_m: Annotated[float, Field(gt=0, le=5)] | None = Field(
        default=None,
        description="Width that a panel takes in its row, metres; of a cabinet with two, half of it. Default: a rack's place.",
    )
    depth_m: Annotated[float, Field(gt=0, le=3)] | None = Field(
        default=None, description="Depth of a panel, metres; default: no deeper than the racks."
    )
    source: Text | None = Field(default=None, description="Data sheet of width and depth.")


class Tariff(Section):
    """What energy costs."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = Field(description="Currency, such as USD.")
    energy_per_mwh: Annotated[float, Field(ge=0, le=10_000)] = Field(description="Price of one megawatt-hour.")
    demand_per_kw_month: Annotated[float, Field(ge=0, le=1000)] = Field(
        description="Demand charge per kilowatt of the month's highest load."
    )
    load_factor: Share = Field(description="Average load over the highest load.")
    source: Text = Field(description="Tariff or contract.")


class LoadSwing(Section):
    """What the load does when all GPUs of a job stop and start together."""

    idle_w: Annotated[float, Field(ge=0, le=200_000)] = Field(
        description="Draw of one GPU server while its GPUs wait, watts."
    )
    source: Text = Field(description="Measurement or study of the figure.")


class Waves(Section):
    """How racks are energised and burnt in before the whole supply stands."""

    energised_kw: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        description="IT load that the energised supply is released for at the time, kilowatts."
    )
    feeds: tuple[Feed, ...] | None = Field(
        default=None, min_length=1, description="Feeds that are energised at the time; default: all of power.feeds."
    )
    cooling_kw: Annotated[float, Field(gt=0, le=1_000_000)] | None = Field(
        default=None,
        description="Heat that the proven cooling carries in all, kilowatts; default: the planned zones with their spare "
        "units out, which limit each zone in any case.",
    )
    ramp_kw_min: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        description="Fastest rise of load that supply and cooling are to see, kilowatts per minute."
    )
    source: Text = Field(description="Source: the document, person or measurement.")


class Electrical(Section):
    """The supply above the rack circuits, from grid to panels. Counts follow from the load, except for existing equipment."""

    concurrently_maintainable: bool = Field(
        default=False,
        description="Whether any part may be out for maintenance; then each part is also judged with each failure.",
    )
    utility: UtilityService = Field(description="The supply that the grid company gives.")
    medium_voltage: Switchgear = Field(description="Intake switchgear, a board to a feed.")
    transformers: MainTransformers = Field(description="From medium voltage to the switchboards.")
    switchboard_v: Annotated[float, Field(ge=100, le=1000)] | None = Field(
        default=None,
        description="Line-to-line voltage of switchboards and UPS, volts; default: that of the rack circuits.",
    )
    switchboards: Switchgear = Field(
        description="Low-voltage boards with the transfer switch, one to a UPS block; boards of cooling are of the same type."
    )
    ups_blocks: UpsBlocks = Field(description="UPS blocks.")
    generators: Generators | None = Field(default=None, description="Generators; mandatory when generator.present.")
    pdu_transformers: TransformerType | None = Field(
        default=None, description="From switchboard_v to the rack circuits' voltage; mandatory where these differ."
    )
    panels: Panels = Field(description="Remote power panels or busway.")
    rack_conductor: Conductor = Field(description="From the panel to the rack PDU or power shelf.")
    max_drop_pct: Annotated[float, Field(gt=0, le=20)] = Field(
        default=5.0,
        description="Permitted voltage drop from the UPS output to the rack, percent (NEC 215.2 informational note: 5 in "
        "all; IEC 60364-5-52 table G.52.1: 5).",
    )
    ratings_at: Literal["standard", "site"] = Field(
        default="standard",
        description="Whether the ratings of UPS, generators, transformers and gear are those of the nameplate, which count less "
        "at altitude, or what their makers state for the site's altitude.",
    )
    frequency_hz: Literal[50, 60] = Field(default=60, description="Frequency, hertz.")
    power_factor: Annotated[float, Field(ge=0.5, le=1)] = Field(
        default=1.0,
        description="Power factor from the switchboards up to the grid: of UPS inputs and of the plant's drives, which correct "
        "theirs; power.power_factor holds behind the UPS only.",
    )
    rooms: dict[Feed, Slug] = Field(
        default={},
        description="Electrical room of a feed: a failure domain. Default: each feed has its own room.",
    )
    drain_s: Annotated[float, Field(gt=0, le=7200)] | None = Field(
        default=None,
        description="Time to write a checkpoint and shut all servers down, seconds; what the battery must last where "
        "there is no generator. Default: storage.checkpoint.stall_s and two minutes.",
    )
    tariff: Tariff | None = Field(default=None, description="What energy costs.")
    swing: LoadSwing | None = Field(default=None, description="Load swing of training.")
    waves: Waves | None = Field(default=None, description="Energisation and burn-in in waves.")


@rule("electrical", "power", "generator", "ups")
def electrical_section_fits_the_rest(
    catalog: Catalog,
    electrical: Electrical | None,
    power: Power,
    generator: Generator,
    ups: Ups,
) -> Iterator[Problem]:
    if electrical is None:
        return
    top = ("electrical",)
    if generator.present and electrical.generators is None:
        yield Problem(
            (*top, "generators"),
            MISSING,
            "",
            "the generators, since generator.present is true",
            "add 'generators:' in electrical, or write present: false in generator",
        )
    if electrical.generators is not None and not generator.present:
        yield Problem(
            (*top, "generators"),
            "generators on a site without them",
            "generator.present: false",
            "no electrical.generators while generator.present is false",
            "delete the key, or write present: true and start_s in generator",
        )
    for key, circuit in (("rack_circuit", power.rack_circuit), ("shelf_circuit", power.shelf_circuit)):
        if circuit is not None and circuit.phases == 1:
            yield Problem(
                ("power", key, "phases"),
                "a single-phase circuit below a supply that is planned",
                "1",
                "3, since electrical is given: load flow, voltage drop and fault level take all circuits as three-phase",
                "write phases: 3 with the PDU that belongs to it, or leave out the section electrical",
            )
    board_v = electrical.switchboard_v or power.voltage_v
    differ = abs(board_v - power.voltage_v) > SAME_VOLTAGE * power.voltage_v
    if differ and electrical.pdu_transformers is None:
        yield Problem(
            (*top, "switchboard_v"),
            "another voltage than the rack circuits' without a transformer between",
            f"{board_v:g}",
            f"{power.voltage_v:g} (power.voltage_v), or pdu_transformers",
            "add 'pdu_transformers:' in electrical, or give both the same voltage",
        )
    for key, kind in (("transformers", electrical.transformers), ("pdu_transformers", electrical.pdu_transformers)):
        if kind is not None and kind.load_loss_kw / kind.kva * 100 >= kind.uk_pct:
            yield Problem(
                (*top, key, "load_loss_kw"),
                "losses that the short-circuit voltage does not allow",
                f"{kind.load_loss_kw:g} kW, {kind.load_loss_kw / kind.kva:.2%} of {kind.kva:g} kVA",
                f"less than uk_pct, {kind.uk_pct:g} % of the rating",
                f"write the losses in kilowatts (below {kind.uk_pct / 100 * kind.kva:g}), or correct uk_pct",
            )
    for name in (electrical.waves.feeds or ()) if electrical.waves else ():
        if name not in power.feeds:
            yield Problem(
                (*top, "waves", "feeds"),
                "energises a feed that the site does not have",
                name,
                f"one of power.feeds: {', '.join(power.feeds)}",
                "correct the name, or add the feed to power.feeds",
            )
    for name in electrical.rooms:
        if name not in power.feeds:
            yield Problem(
                (*top, "rooms", name),
                "a room of a feed that the site does not have",
                name,
                f"one of {', '.join(power.feeds)} (power.feeds)",
                "delete the line, or add the feed to power.feeds",
            )
    for place, conductor in (
        (("panels", "feeder"), electrical.panels.feeder),
        (("rack_conductor",), electrical.rack_conductor),
    ):
        if (conductor.ampacity_a is None) != (conductor.ampacity_source is None):
            absent = "ampacity_source" if conductor.ampacity_source is None else "ampacity_a"
            yield Problem(
                (*top, *place, absent),
                MISSING,
                "",
                "ampacity_a and the table that it comes from, with its derating, or neither",
                f"add '{absent}:', or delete the other one",
            )
    if electrical.panels.feeder.length_m is None:
        yield Problem(
            (*top, "panels", "feeder", "length_m"),
            MISSING,
            "",
            "metres from the UPS block or PDU transformer to a panel",
            "add 'length_m:' in feeder (only rack circuits are routed by the plan)",
        )
    blocks = electrical.ups_blocks
    if blocks.modules_per_block is None and blocks.most_modules is None:
        yield Problem(
            (*top, "ups_blocks", "modules_per_block"),
            MISSING,
            "",
            "the modules of each block, or most_modules, up to which a block has as many as its load needs",
            "add 'most_modules:' or 'modules_per_block:' in ups_blocks",
        )
        return
    modules = blocks.frame_modules
    spare = {"n": 0, "n+1": 1, "n+2": 2, "2n": modules // 2}[ups.redundancy]
    if modules <= spare or (ups.redundancy == "2n" and modules % 2):
        yield Problem(
            (*top, "ups_blocks", "modules_per_block" if blocks.modules_per_block else "most_modules"),
            f"too few modules for {ups.redundancy}" if ups.redundancy != "2n" else "an odd number of modules for 2n",
            str(modules),
            "an even number" if ups.redundancy == "2n" else f"at least {spare + 1} modules",
            "add modules, or change ups.redundancy",
        )


@rule("electrical", "ups", "server")
def a_ups_block_carries_a_server(
    catalog: Catalog, electrical: Electrical | None, ups: Ups, server: Server
) -> Iterator[Problem]:
    if electrical is None:
        return
    block_kw = electrical.ups_blocks.frame_modules * ups.module_kw
    server_kw = server.power.nameplate_w / 1000
    if block_kw < server_kw:
        yield Problem(
            ("ups", "module_kw"),
            "UPS blocks that do not carry one server",
            f"{ups.module_kw:g} kilowatts, {block_kw:g} a block",
            f"blocks of at least {server_kw:g} kilowatts, the nameplate of a server",
            f"write kilowatts ({ups.module_kw * 1000:g} if {ups.module_kw:g} MW is meant), or give a block more modules",
        )


@rule("electrical", "server")
def idle_servers_draw_less_than_working_ones(
    catalog: Catalog, electrical: Electrical | None, server: Server
) -> Iterator[Problem]:
    swing, measured = electrical.swing if electrical else None, server.power.measured_w
    if swing is not None and swing.idle_w >= measured:
        yield Problem(
            ("electrical", "swing", "idle_w"),
            "an idle draw as large as the draw at work",
            f"{swing.idle_w:g}",
            f"below server.power.measured_w, {measured:g} watts, which training draws: the difference is the load step",
            "write what one server draws while its GPUs wait, watts of a server and not of a rack",
        )


@rule("electrical", "power")
def installed_equipment_is_more_than_its_spares(
    catalog: Catalog, electrical: Electrical | None, power: Power
) -> Iterator[Problem]:
    if electrical is None:
        return
    kinds: list[tuple[str, Installed, int]] = [
        ("ups_blocks", electrical.ups_blocks, 0),
        ("transformers", electrical.transformers, electrical.transformers.n_plus),
    ]
    if electrical.generators is not None:
        kinds.append(("generators", electrical.generators, electrical.generators.n_plus))
    for key, given, spare in kinds:
        counts = [
            (("installed",), given.installed),
            *((("installed_by_feed", f), n) for f, n in given.installed_by_feed.items()),
        ]
        for path, count in counts:
            if count is not None and count <= spare:
                yield Problem(
                    ("electrical", key, *path),
                    "no more than the spare ones",
                    str(count),
                    f"at least {spare + 1} to a feed: one that carries load and {spare} spare (n_plus)",
                    "count all that stand there, spare ones included, or lower n_plus",
                )
        for feed in given.installed_by_feed:
            if feed not in power.feeds:
                yield Problem(
                    ("electrical", key, "installed_by_feed", feed),
                    "stands on a feed that the site does not have",
                    feed,
                    f"one of {', '.join(power.feeds)} (power.feeds)",
                    "correct the name, or add the feed to power.feeds",
                )
