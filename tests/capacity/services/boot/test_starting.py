"""What the boot server serves to a server, read as it is rendered, and whether the server may be started from the network."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.services.boot.dhcp import base_url
from capacity.services.boot.life import Life
from capacity.services.boot.scripts import deployment
from capacity.services.boot.starting import Now, OfferError, Target, barred, outlook, parse_offer
from tests.capacity.services.boot.cases import image
from tests.plans import plan_of

CONTENT = "ab" * 32
TARGET = Target("gpu001", "gpu", "0123456789ab", "0" * 64, ("S1", "S2"))
RENDERED = deployment(base_url(plan_of("lab")), "gpu001", "02:5e:00:00:00:01", ("S1", "S2"), image(), {"S1": CONTENT})
OFF = Now(on=False, ours=False, running=None)


def test_what_is_rendered_for_a_server_is_its_offer() -> None:
    offer = parse_offer(RENDERED)
    assert (offer.server, offer.role, offer.version, offer.sha256) == ("gpu001", "gpu", "0123456789ab", "0" * 64)
    assert (offer.serials, offer.consents) == (("S1", "S2"), {"S1": CONTENT})
    assert barred(TARGET, offer, OFF) is None


BAD = {
    "nothing": "",
    "cut off": RENDERED[: len(RENDERED) // 2],
    "a command": RENDERED + "$(reboot)\n",
    "a quote": RENDERED + "X='a'b'\n",
    "twice": RENDERED + "VERSION='ffff'\n",
    "endless": RENDERED + "\n".join(f"A{n}='x'" for n in range(200)),
    "no content": RENDERED.replace(CONTENT, "all"),
    "a drive twice": RENDERED.replace(f"S1={CONTENT}", f"S1={CONTENT} S1={CONTENT}"),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_another_text_is_no_offer(text: str) -> None:
    with pytest.raises(OfferError):
        parse_offer(text)


@given(st.text(max_size=300))
def test_whatever_is_served_only_an_offer_error_leaves(text: str) -> None:
    with pytest.raises(OfferError):
        parse_offer(text)


def test_what_is_served_for_other_drives_or_another_image_is_named() -> None:
    offer = parse_offer(RENDERED)
    assert barred(TARGET, None, OFF) == ("not-offered", "gpu001 is served nothing")
    assert barred(replace(TARGET, serials=("S1", "S3"), version="ffff"), offer, OFF) == (
        "not-offered",
        "it is served image 0123456789ab, planned ffff; drives S1 S2, planned S1 S3",
    )


LIFE = Life("gpu001")


def test_a_preview_says_that_a_ready_server_that_is_off_is_not_written() -> None:
    ready = Life("gpu001", "ready", image=TARGET.version)
    said = outlook(TARGET, replace(parse_offer(RENDERED), consents={}), ready, OFF)
    assert said == "gpu001: ready, and does not answer; would be started from its drives if it is off"


def test_a_preview_says_what_would_be_written_and_what_re_imaged() -> None:
    offer = parse_offer(RENDERED)
    empty = outlook(TARGET, replace(offer, consents={}), LIFE, OFF)
    assert empty == (
        "gpu001: stands at inspect; would be written with gpu 0123456789ab on S1, S2, if these drives are empty"
    )
    both = replace(offer, consents={"S1": CONTENT, "S2": CONTENT})
    older = Now(True, True, "gpu older 11", {"S1": CONTENT, "S2": CONTENT})
    assert outlook(TARGET, both, LIFE, older) == (
        "gpu001: stands at inspect; would be RE-IMAGED with gpu 0123456789ab: consent to S1 while it holds abababababab, "
        "S2 while it holds abababababab"
    )
    assert outlook(TARGET, offer, LIFE, replace(older, running=TARGET.note)) == "", "consent to one drive of two"
    again = outlook(TARGET, both, LIFE, replace(older, running=TARGET.note))
    assert again.startswith(
        "gpu001: stands at inspect; would be RE-IMAGED with gpu 0123456789ab: consent to S1 while it holds"
    )
    refused = outlook(TARGET, offer, LIFE, older)
    assert "would not be written (no-consent): it runs gpu older; to overwrite it: --overwrite gpu001:S2:" in refused
