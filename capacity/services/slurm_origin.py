"""Whether the pinned version of Slurm can be had from where the site takes its packages."""

from inventory.findings import Finding, RemedyOf, Severity, finding, remedy
from inventory.site import Site
from inventory.slurm_packages import SlurmPackages, load_slurm_packages

SUBJECT = "scheduler.packages"


def check_slurm_origin(site: Site) -> list[Finding]:
    """SLURM-ORIGIN: the distribution has another version, or nothing holds what was built from SchedMD's release."""
    if site.scheduler.kind != "slurm":
        return []
    known = load_slurm_packages()
    return _from_schedmd(site, known) if site.scheduler.packages == "schedmd" else _from_distribution(site, known)


def _from_distribution(site: Site, known: SlurmPackages) -> list[Finding]:
    pinned, system = site.versions["slurm"], f"{site.os.name} {site.os.version}"
    have = known.distribution_versions.get(site.os.key)
    if have is None:
        return [
            finding("SLURM-ORIGIN", SUBJECT, case="unknown", severity="warning", words={"pinned": pinned, "os": system})
        ]
    if have.version == pinned:
        return []
    built = (
        remedy({"scheduler.packages": "schedmd"})
        if site.os.repositories and known.packaged_by_schedmd(pinned)
        else remedy(fix="build")
    )
    severity: Severity = "warning" if site.os.repositories else "error"
    return [
        finding(
            "SLURM-ORIGIN",
            SUBJECT,
            case="perhaps" if site.os.repositories else "other",
            severity=severity,
            words={"pinned": pinned, "os": system, "version": have.version, "source": have.source},
            remedies=[remedy({"versions.slurm": have.version}), built],
        )
    ]


def _from_schedmd(site: Site, known: SlurmPackages) -> list[Finding]:
    pinned, first = site.versions["slurm"], known.schedmd_first_packaged
    have = known.distribution_versions.get(site.os.key)
    instead: list[RemedyOf] = []
    if have:
        pin = {} if have.version == pinned else {"versions.slurm": have.version}
        instead = [remedy({"scheduler.packages": "distribution", **pin})]
    if not known.packaged_by_schedmd(pinned):
        words = {"pinned": pinned, "first": first.version, "source": first.source}
        fixes = [*instead, remedy(fix="newer")]
        return [finding("SLURM-ORIGIN", SUBJECT, case="no-packaging", severity="error", words=words, remedies=fixes)]
    if site.os.repositories:
        return []
    return [
        finding(
            "SLURM-ORIGIN",
            SUBJECT,
            case="no-repository",
            severity="error",
            words={"pinned": pinned},
            remedies=[remedy(fix="repository"), *instead],
        )
    ]
