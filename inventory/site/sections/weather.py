"""The typical year of a site file."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from inventory.catalog import Catalog
from inventory.site.rules import rule
from inventory.site.values import Section, Text
from inventory.site.yaml_source import Problem


class WeatherBin(Section):
    """Hours of a year with about the same weather."""

    dry_c: Annotated[float, Field(ge=-60, le=60)] = Field(description="Dry bulb, Celsius.")
    wet_c: Annotated[float, Field(ge=-60, le=45)] = Field(description="Wet bulb, Celsius.")
    hours: Annotated[float, Field(gt=0, le=8784)] = Field(description="Hours a year.")


class Weather(Section):
    """The weather of a typical year at the site: an EPW file or bins."""

    epw: Text | None = Field(
        default=None, description="Path of an EnergyPlus weather file, relative to the folder of the site file."
    )
    bins: tuple[WeatherBin, ...] = Field(
        default=(), description="Bins where there is no such file; their hours add up to a year."
    )
    source: Text = Field(description="Where the file or the bins come from.")


HOURS_OF_A_YEAR = (8760.0, 8784.0)


@rule("weather")
def weather_is_a_file_or_a_year_of_bins(catalog: Catalog, weather: Weather | None) -> Iterator[Problem]:
    if weather is None:
        return
    if (weather.epw is None) == (not weather.bins):
        found = "both" if weather.bins else "neither"
        yield Problem(
            ("weather",), "not one source of weather", found, "either epw or bins", "keep the file where there is one"
        )
    hours = sum(one.hours for one in weather.bins)
    if weather.bins and not HOURS_OF_A_YEAR[0] <= hours <= HOURS_OF_A_YEAR[1]:
        yield Problem(
            ("weather", "bins"),
            "bins that are no year",
            f"{hours:g} hours",
            "8,760 hours together (8,784 in a leap year)",
            "correct the hours of the bins",
        )
    for n, one in enumerate(weather.bins):
        if one.wet_c > one.dry_c:
            yield Problem(
                ("weather", "bins", n, "wet_c"),
                "above the dry bulb",
                f"{one.wet_c:g}",
                f"at most dry_c, {one.dry_c:g} degrees Celsius",
                "swap the two, or correct one of them",
            )
