"""Time budgets of drivers and of jobs that checks start. No check judges by them: what exceeds one counts as hung."""

from typing import Annotated

from pydantic import Field

from inventory.site.values import Section

Seconds = Annotated[float, Field(gt=0, le=86400)]


class Timeouts(Section):
    """How long drivers and checks wait, seconds. The defaults suit devices under load; a site gives those that differ."""

    bmc_s: Seconds = Field(default=30, description="One Redfish call; a BMC that needs longer counts as hung.")
    snmp_s: Seconds = Field(default=10, description="One SNMP operation, with its retries.")
    ssh_s: Seconds = Field(default=60, description="One SSH login and command.")
    gpu_s: Seconds = Field(
        default=10, description="One GPU's answers through NVML; one that needs longer counts as hung."
    )
    infiniband_s: Seconds = Field(default=300, description="Reading the whole InfiniBand fabric from one host.")
    storage_s: Seconds = Field(
        default=5, description="One call to the shared file system; one that needs longer counts as hung."
    )
    second_reading_s: Seconds = Field(default=120, description="testinfra's reading of one node (S032).")
    collectives_s: Seconds = Field(default=3600, description="The collectives sweep.")
    training_s: Seconds = Field(default=3600, description="One training smoke run without interruption.")
