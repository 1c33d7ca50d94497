"""GPUs that are kept for an account from one time to another."""

import datetime
from typing import Annotated

from pydantic import Field

from inventory.site.values import Count, Moment, Section, Slug


class Reservation(Section):
    """GPUs that jobs of one account get for a window of time, from whoever has them."""

    name: Slug = Field(description="Name of its queue in the account's namespace, which jobs name.")
    account: Slug = Field(description="Account whose jobs it is for, with no others below it.")
    gpus: Count = Field(description="GPUs, of servers that share none.")
    start: Moment = Field(description="When it begins, with its offset from UTC.")
    hours: Annotated[float, Field(gt=0, le=8760)] = Field(
        description="How long it is, hours. What runs in it at its end is evicted with its grace."
    )

    @property
    def queue(self) -> str:
        """Name of its quota among those of all accounts."""
        return f"reservation-{self.name}"

    @property
    def end(self) -> datetime.datetime:
        """When it is over."""
        return self.start + datetime.timedelta(hours=self.hours)
