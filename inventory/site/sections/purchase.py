"""Prices, owners, tranches and spares of a site file."""

import datetime
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from inventory import groups
from inventory.catalog import Catalog
from inventory.site.messages import nearest, shown
from inventory.site.rules import rule
from inventory.site.sections.schedule import Schedule
from inventory.site.values import Percent, Positive, Section, Slug, Text
from inventory.site.yaml_source import Path, Problem

BOM_ITEMS = (
    "gpu",
    "cpu",
    "dimm",
    "drive",
    "supply",
    "nic port",
    "cold plate",
    "server",
    "system",
    "switch",
    "pdu",
    "shelf",
    "rack",
    "manifold",
    "cdu",
    "cable",
    "transceiver",
    "cord",
    "breaker",
    "ups module",
    "blanking panel",
    "label",
    "storage enclosure",
    "storage drive",
    "metadata server",
    "cooling unit",
    "floor tile",
    "containment",
    "chiller",
    "water pump",
    "cooling tower",
    "dry cooler",
    "leak sensor",
    "shut-off valve",
    "medium voltage switchgear",
    "transformer",
    "switchboard",
    "transfer switch",
    "generator",
    "pdu transformer",
    "panel",
    "conductor",
    "busway",
    "tap-off box",
    "ups battery",
    "coolant",
    "room sensor",
)
"""Items of the bill of materials: what prices, owners, tranches and failure rates name."""


class Price(Section):
    """A unit price with its source."""

    item: Text = Field(description="Item of the bill of materials: " + ", ".join(BOM_ITEMS) + ".")
    model: Text | None = Field(
        default=None, description="Model, or what the model begins with, where the price is for one model only."
    )
    unit_price: Annotated[float, Field(ge=0, le=1e10)] = Field(description="Price of one unit.")
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] | None = Field(
        default=None, description="ISO 4217 code; default: purchase.currency."
    )
    source: Text = Field(description="Quote, price list or estimate, with its date.")


class ExchangeRate(Section):
    """What one unit of another currency is worth."""

    rate: Positive = Field(description="Units of purchase.currency for one unit of this currency.")
    as_of: datetime.date = Field(description="Date of the rate, YYYY-MM-DD.")
    source: Text = Field(description="Who published it.")


class FailureRate(Section):
    """How often an item fails, and how often it is replaced then."""

    afr_pct: Annotated[float, Field(gt=0, le=100)] = Field(description="Annual failure rate, percent.")
    source: Text = Field(description="Field study, data sheet or own record.")
    replaced_pct: Annotated[float, Field(ge=0, le=100)] = Field(
        default=100,
        description="Share of these failures after which the part is replaced, percent; a reset or repair ends the others.",
    )
    replaced_source: Text | None = Field(default=None, description="Where that share is from.")

    @property
    def replaced_afr_pct(self) -> float:
        """Parts replaced in a year, percent: what spares are for."""
        return self.afr_pct * self.replaced_pct / 100


class Spares(Section):
    """How many spares are bought."""

    confidence_pct: Annotated[float, Field(ge=50, lt=100)] = Field(
        default=95, description="Probability that the spares last until replacements arrive, percent."
    )
    restock_weeks: Annotated[float, Field(gt=0, le=520)] | None = Field(
        default=None,
        description="Time until a replacement arrives, weeks; default: the longest lead time of the item, 12 where it has none.",
    )
    share_pct: Percent = Field(
        default=2, description="Spares of items without a failure rate, percent of their number, at least one."
    )
    rates: dict[Text, FailureRate] = Field(default={}, description="Failure rates by item of the bill of materials.")


class Tranche(Section):
    """A part of the order that is delivered together."""

    name: Slug = Field(description="Name of the tranche.")
    share_pct: Annotated[float, Field(gt=0, le=100)] = Field(
        description="Share of each of its items, percent; the shares of an item add up to 100."
    )
    items: tuple[Text, ...] = Field(
        default=(), description="Items of the bill of materials; default: all that no other tranche names."
    )
    promised_date: datetime.date | None = Field(
        default=None, description="Delivery that the supplier has promised, YYYY-MM-DD (S002)."
    )
    promised_latest: datetime.date | None = Field(
        default=None,
        description="Latest delivery that the promise allows, YYYY-MM-DD; default: promised_date, a promise without a range.",
    )
    source: Text | None = Field(default=None, description="Who promised it, and where it is written.")


class Purchase(Section):
    """What things cost, who buys them, in which parts, with how many spares."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = Field(
        default="USD", description="Currency of all totals: an ISO 4217 code."
    )
    prices: tuple[Price, ...] = Field(
        default=(), description="Unit prices; a price for a model goes before one for all models of the item."
    )
    exchange: dict[Annotated[str, Field(pattern=r"^[A-Z]{3}$")], ExchangeRate] = Field(
        default={}, description="Rates of the other currencies that prices are given in."
    )
    owners: dict[Text, Text] = Field(
        default={}, description="Who buys an item of the bill of materials; * stands for all others."
    )
    tranches: tuple[Tranche, ...] = Field(default=(), max_length=24, description="Parts of the order.")
    spares: Spares = Field(default=Spares(), description="How many spares are bought.")


@rule("schedule", "purchase")
def activities_work_on_known_tranches(catalog: Catalog, schedule: Schedule, purchase: Purchase) -> Iterator[Problem]:
    names = [tranche.name for tranche in purchase.tranches]
    for name, activity in schedule.activities.items():
        path = ("schedule", "activities", name, "tranche")
        if activity.tranche is None:
            continue
        if activity.tranche not in names:
            near = nearest(activity.tranche, names)
            do = f"write {near}" if near else "name a tranche of the purchase, or delete the key"
            yield Problem(
                path,
                "an unknown tranche",
                activity.tranche,
                f"one of {', '.join(names) or 'purchase.tranches'}",
                do,
                nearest=near,
            )
        if activity.group != groups.ROOM_GROUP:
            yield Problem(
                path,
                "a tranche of work that is not D04",
                activity.group,
                "a tranche for receiving, racking or cabling (D04)",
                "delete the key: later groups start when the whole of D04 is done",
            )


@rule("purchase")
def purchase_names_items_of_the_bill(catalog: Catalog, purchase: Purchase) -> Iterator[Problem]:
    named: list[tuple[Path, str]] = [(("purchase", "prices", n, "item"), p.item) for n, p in enumerate(purchase.prices)]
    named += [(("purchase", "owners", item), item) for item in purchase.owners if item != "*"]
    named += [(("purchase", "spares", "rates", item), item) for item in purchase.spares.rates]
    named += [
        (("purchase", "tranches", n, "items", k), item)
        for n, tranche in enumerate(purchase.tranches)
        for k, item in enumerate(tranche.items)
    ]
    for path, item in named:
        if item not in BOM_ITEMS:
            near = nearest(item, BOM_ITEMS)
            do = f"write {near}" if near else "name an item of the bill of materials"
            yield Problem(path, "an unknown item", item, f"one of {', '.join(BOM_ITEMS)}", do, nearest=near)


@rule("purchase")
def prices_can_be_added_up(catalog: Catalog, purchase: Purchase) -> Iterator[Problem]:
    for n, price in enumerate(purchase.prices):
        if price.currency and price.currency != purchase.currency and price.currency not in purchase.exchange:
            yield Problem(
                ("purchase", "prices", n, "currency"),
                "a currency without a rate",
                price.currency,
                f"{purchase.currency}, or a currency of purchase.exchange",
                f"add '{price.currency}: {{rate: ..., as_of: ..., source: ...}}' in purchase.exchange",
            )


@rule("purchase")
def tranches_are_the_whole_order(catalog: Catalog, purchase: Purchase) -> Iterator[Problem]:
    shares: dict[str, float] = {}
    for tranche in purchase.tranches:
        for item in tranche.items or ("all other items",):
            shares[item] = shares.get(item, 0.0) + tranche.share_pct
    for item, share in shares.items():
        if abs(share - 100) > 1e-6:
            yield Problem(
                ("purchase", "tranches"),
                "shares that do not add up",
                f"{item}: {share:g} %",
                "100 % for each item",
                "correct share_pct of the tranches that name it",
            )


@rule("purchase")
def tranches_are_promised_for_a_range(catalog: Catalog, purchase: Purchase) -> Iterator[Problem]:
    for n, tranche in enumerate(purchase.tranches):
        if tranche.promised_latest and not (tranche.promised_date and tranche.promised_date <= tranche.promised_latest):
            yield Problem(
                ("purchase", "tranches", n, "promised_latest"),
                "a range that ends before it starts" if tranche.promised_date else "an end without a beginning",
                shown(tranche.promised_latest),
                f"a date from promised_date, {tranche.promised_date}, on"
                if tranche.promised_date
                else "promised_date beside it",
                "swap the two" if tranche.promised_date else "add promised_date, or write the date there",
            )
