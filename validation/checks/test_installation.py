"""Installation over the network: what is rendered for it, and what the record of installed servers says was read back."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from capacity.model import Plan
from capacity.services import boot
from capacity.services.boot.record import Installed, faults
from inventory.delivered.assets import load_assets
from inventory.site import Site
from validation.check import Limit, Outcome, check
from validation.evidence import Identity

IMAGES = "images"
"""Folder of built images within the site's outputs: ROLE/image.json each."""


@pytest.fixture(scope="session")
def images(out_folder: Path) -> dict[str, boot.Image]:
    """Built images of the site, by role."""
    return built(out_folder)


def built(out_folder: Path) -> dict[str, boot.Image]:
    """Images below the folder of a site's outputs, by role. ImageError for one that is not valid."""
    found = [
        boot.parse_image(path.read_text(), str(path)) for path in sorted(out_folder.glob(f"{IMAGES}/*/image.json"))
    ]
    return {image.role: image for image in found}


@pytest.fixture(scope="session")
def booting(site: Site, plan: Plan) -> boot.Intents:
    """Who boots from the network, and who does not."""
    return boot.intents(plan, load_assets(site))


@check(
    "S142.generated",
    inputs=(
        "site.provisioning",
        "site.addressing",
        "site.credentials",
        "site.os",
        "site.fabric",
        "site.oob",
        "frame.addresses",
        "frame.cables",
        "frame.devices",
        "frame.placements",
        "assets",
    ),
)
def test_network_boot_is_generated_for_every_delivered_server(
    subject: str, site: Site, plan: Plan, images: Mapping[str, boot.Image], booting: boot.Intents
) -> Outcome:
    if booting.hosts.empty:
        pytest.skip("assets.csv names no MAC of a provisioning port with its boot drives")
    made = boot.files(plan, booting, images, "")
    servers = set(plan.devices.loc[plan.devices["kind"] == "server", "name"]) & set(load_assets(site).index)
    why = {line.split(",", 1)[0]: line.split(",", 1)[1] for line in made["nothing.csv"].splitlines()[1:]}
    problems = [f"{name} gets nothing: {why[name]}" for name in sorted(servers & set(why))]
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(made.items())}
    value = {"servers": len(servers), "files": len(made), "by_hash": digests}
    good = f"{len(made)} files for {len(servers)} delivered servers, one script, seed and disk layout each"
    raw = json.dumps(made, indent=1, sort_keys=True).encode()
    return Outcome(not problems, value, "; ".join(problems) or good, raw=raw)


@check("S142.applied", inputs=("site.provisioning", "frame.addresses", "frame.devices", "assets"))
def test_server_was_installed_over_the_network_and_read_back(
    subject: str,
    plan: Plan,
    images: Mapping[str, boot.Image],
    booting: boot.Intents,
    installed: Mapping[str, Installed],
) -> Outcome:
    one = installed.get(subject)
    if one is None:
        pytest.skip(f"no record says that {subject} was installed over the network")
    hosts = {host["device"]: host for host in booting.servers()}
    identity = Identity(subject, "dmi", one.maker, one.uuid)
    if subject not in hosts or one.role not in images:
        why = (
            booting.nothing.get(subject)
            or f"no image of role {one.role} is built, which the record could be compared with"
        )
        return Outcome(False, None, why, identities=(identity,), raw=one.raw)
    image = images[one.role]
    problems = faults(one, image, hosts[subject]["mac"], booting.layouts[subject].serials)
    if one.role != hosts[subject]["role"]:
        problems.append(f"the image of role {one.role} was written, planned is {hosts[subject]['role']}")
    again = next((other for other in installed.values() if other.alike > 1 and other.sha256 == one.sha256), None)
    if again is None:
        problems.append(
            f"nobody has seen that installing again gives the same: write one {one.role} server once more, by its consent "
            "(`bringup boot render --overwrite`), then `bringup boot collect`"
        )
    value = {
        "image": f"{one.role} {one.version}",
        "read_back": {"sha256": one.sha256, "drives": list(one.drives)},
        "writings": one.writings,
        "written_alike": {"server": again.server, "times": again.alike} if again else None,
        "power_on_to_read_back_s": one.written_s,
        "power_on_to_login_s": one.login_s,
        "read_back_at": one.written_at,
    }
    took = "" if one.login_s is None else f", login {one.login_s:g} s after power-on"
    alike = f"{again.alike} times the same on {again.server}" if again else ""
    good = f"image {one.version} read back from {len(one.drives)} drives and running{took}; written {alike}"
    limit = Limit(image.parts["root"].sha256, "SHA-256", f"image.json of role {one.role}")
    return Outcome(not problems, value, "; ".join(problems) or good, limit=limit, identities=(identity,), raw=one.raw)
