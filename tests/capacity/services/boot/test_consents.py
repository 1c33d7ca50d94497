"""Consent to overwrite a drive: it names server, drive and content, reaches no other server, and is used once.

What the initramfs decides is the text of deploy.sh itself, run by a shell with drives that are made of files: no root, no device.
"""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.services.boot import files, intents
from capacity.services.boot.consents import ConsentError, asked_for, kept, parse, remedy
from capacity.services.boot.intents import Intents, hyphened
from capacity.services.boot.life import Report, way_out
from capacity.services.boot.starting import parse_offer
from inventory.delivered.assets import load_assets
from inventory.paths import repo_root
from tests.capacity.services.boot.cases import PUBLIC_KEY, image
from tests.plans import plan_of

HELD = "3f" * 32
OTHER = "4a" * 32
REFUSAL = f"drive SIM-DR-1001A holds {HELD}, drive SIM-DR-1001B holds {OTHER}"
"""As deploy.sh says it; see the tests of its text below."""
HEX = st.text("0123456789abcdef", min_size=64, max_size=64)


def found() -> Intents:
    plan = plan_of("lab-metal")
    return intents(plan, load_assets(plan.site))


def test_a_consent_names_server_drive_and_content() -> None:
    given_to = parse([f"gpu001:SIM-DR-1001A:{HELD}", f"gpu001:SIM-DR-1001B:{OTHER}"], found())
    assert given_to == {"gpu001": {"SIM-DR-1001A": HELD, "SIM-DR-1001B": OTHER}}


REFUSED = {
    "another server's drive": (f"gpu001:SIM-DR-1002A:{HELD}", "SIM-DR-1002A is no boot drive of gpu001"),
    "no such server": (f"gpu009:SIM-DR-1001A:{HELD}", "no server gpu009"),
    "all drives": (f"gpu001:{HELD}", "no drive is no boot drive of gpu001"),
    "any content": ("gpu001:SIM-DR-1001A:*", "the content is 64 hex digits"),
    "part of a content": (f"gpu001:SIM-DR-1001A:{HELD[:12]}", "the content is 64 hex digits"),
}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_what_names_less_is_no_consent(text: str, why: str) -> None:
    with pytest.raises(ConsentError, match=rf"^--overwrite .*{why.replace('*', '.')}"):
        parse([text], found())


def test_the_refusal_of_a_server_names_the_consent_that_it_asks_for() -> None:
    reports = {
        "gpu001": [Report(1.0, "started"), Report(2.0, "foreign-content", REFUSAL)],
        "gpu002": [Report(1.0, "foreign-content", f"drive SIM-DR-1002A holds {HELD}"), Report(2.0, "written", "hash")],
    }
    asked = asked_for(reports)
    assert list(asked) == ["gpu001"], "gpu002 went on since"
    assert parse(asked["gpu001"], found()) == {"gpu001": {"SIM-DR-1001A": HELD, "SIM-DR-1001B": OTHER}}


def test_what_to_do_about_foreign_content_has_the_words_for_all_drives() -> None:
    said = remedy("gpu001", "foreign-content", REFUSAL)
    words = f"--overwrite gpu001:SIM-DR-1001A:{HELD} --overwrite gpu001:SIM-DR-1001B:{OTHER}"
    assert said.endswith(f": bringup boot render SITE {words}")
    assert remedy("gpu001", "half-new", REFUSAL) == way_out("half-new")
    assert remedy("gpu001", "foreign-content", "drive S1 holds something") == way_out("foreign-content")


def test_a_serial_number_that_a_machine_made_up_is_no_command() -> None:
    said = remedy("gpu001", "foreign-content", f"drive $(reboot) holds {HELD}")
    assert f"--overwrite 'gpu001:$(reboot):{HELD}'" in said


def test_consents_stay_until_they_are_withdrawn_or_their_drive_is_planned_no_more() -> None:
    earlier = {
        "gpu001": {"SIM-DR-1001A": HELD, "SIM-DR-1001B": OTHER, "REPLACED": HELD},
        "gpu002": {"SIM-DR-1002A": HELD},
        "gpu009": {"SIM-DR-1009A": HELD},
    }
    both = {"SIM-DR-1001A": HELD, "SIM-DR-1001B": OTHER}
    assert kept(earlier, [], found()) == {"gpu001": both, "gpu002": {"SIM-DR-1002A": HELD}}
    assert kept(earlier, ["gpu001:SIM-DR-1001A", "gpu002"], found()) == {
        "gpu001": {"SIM-DR-1001B": OTHER},
        "gpu002": {},
    }


@pytest.mark.parametrize("text", ["gpu001:SIM-DR-1001B", "gpu003", "", "gpu001:REPLACED"])
def test_what_was_not_consented_to_cannot_be_withdrawn(text: str) -> None:
    with pytest.raises(ConsentError, match=rf"^--withdraw {text}: no such consent; there are: gpu001:SIM-DR-1001A$"):
        kept({"gpu001": {"SIM-DR-1001A": HELD, "REPLACED": HELD}}, [text], found())


@given(HEX)
@settings(max_examples=10, deadline=None)
def test_a_consent_changes_the_plan_of_its_server_and_nothing_else(content: str) -> None:
    plan, who = plan_of("lab-metal"), found()
    before = files(plan, who, {"gpu": image()}, PUBLIC_KEY)
    after = files(plan, who, {"gpu": image()}, PUBLIC_KEY, parse([f"gpu001:SIM-DR-1001A:{content}"], who))
    mac = hyphened(str(who.hosts.set_index("device").at["gpu001", "mac"]))
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {f"http/plan/{mac}.env", f"http/seed/{mac}/meta-data"}, "its next writing has a seed of its own"
    assert f"SIM-DR-1001A={content}" in after[f"http/plan/{mac}.env"]
    assert set(before) == set(after)


STUBS = """
DEVICE=gpu001 ROLE=gpu VERSION=0123456789ab CONSENTS="$1" FOUND=" S1=d1 S2=d2"
mark() { cat "$1.mark"; }
content() { cat "$1.content"; }
report() { echo "$@"; }
stop() { echo "$@"; exit 0; }
restart() { exit 0; }
"""


def decided(folder: Path, given_to: dict[str, str], **drives: tuple[str, str]) -> str:
    """What deploy.sh says of drives d1 and d2 with these marks and contents, and writes for `write` (a third argument)."""
    script = (repo_root() / "infra/boot/deploy.sh").read_text()
    decision = script[script.index("\nDONE= FREE= FOREIGN=\n") : script.index("\nreport writing ")]
    for name, (mark, content) in drives.items():
        (folder / f"{name}.mark").write_text(mark + "\n" if mark else "")
        (folder / f"{name}.content").write_text(content + "\n")
    text = " ".join(f"{serial}={content}" for serial, content in given_to.items())
    done = subprocess.run(
        ["sh", "-uc", f"{STUBS}{decision}\necho write$FREE", "sh", text],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        timeout=60,
    )
    return done.stdout.strip()


EMPTY = ("", "empty")
FOREIGN = ("", HELD)


def ours(state: str, serial: str, content: str = OTHER, version: str = "0123456789ab") -> tuple[str, str]:
    return (f"bringup {state} gpu001 {serial} {version} 11111111-2222", content)


def test_empty_drives_are_written(tmp_path: Path) -> None:
    assert decided(tmp_path, {}, d1=EMPTY, d2=EMPTY) == "write S1 S2"


def test_each_drive_that_holds_something_is_refused_by_serial_number_and_content(tmp_path: Path) -> None:
    both = decided(tmp_path, {}, d1=FOREIGN, d2=("", OTHER))
    assert both == f"foreign-content drive S1 holds {HELD}, drive S2 holds {OTHER}"
    state, _, text = both.partition(" ")
    (asked,) = asked_for({"gpu001": [Report(1.0, state, text)]}).values()
    assert asked == (f"gpu001:S1:{HELD}", f"gpu001:S2:{OTHER}")
    assert decided(tmp_path, {"S1": HELD, "S2": OTHER}, d1=FOREIGN, d2=("", OTHER)) == "write S1 S2"
    assert decided(tmp_path, {"S1": HELD}, d1=FOREIGN, d2=FOREIGN) == f"foreign-content drive S2 holds {HELD}"
    assert decided(tmp_path, {"S1": HELD, "S2": HELD}, d1=FOREIGN, d2=FOREIGN) == "write S1 S2"


def test_a_consent_holds_for_its_drive_and_its_content_only(tmp_path: Path) -> None:
    swapped = decided(tmp_path, {"S1": OTHER, "S2": HELD}, d1=FOREIGN, d2=("", OTHER))
    assert swapped == f"foreign-content drive S1 holds {HELD}, drive S2 holds {OTHER}"


def test_a_consent_to_an_empty_drive_reaches_no_other_content(tmp_path: Path) -> None:
    consent = {"S1": "empty", "S2": "empty"}
    assert decided(tmp_path, consent, d1=EMPTY, d2=EMPTY) == "write S1 S2"
    assert decided(tmp_path, consent, d1=FOREIGN, d2=EMPTY) == f"foreign-content drive S1 holds {HELD}"
    written = {"d1": ours("written", "S1", "a" * 64), "d2": ours("written", "S2", "b" * 64)}
    assert decided(tmp_path, consent, **written).startswith("already-written ")


def test_a_server_whose_drives_were_emptied_gets_another_seed_by_consent() -> None:
    plan, who = plan_of("lab-metal"), found()
    given_to = parse(["gpu001:SIM-DR-1001A:empty"], who)
    before, after = (files(plan, who, {"gpu": image()}, PUBLIC_KEY, given) for given in ({}, given_to))
    mac = hyphened(str(who.hosts.set_index("device").at["gpu001", "mac"]))
    assert before[f"http/seed/{mac}/meta-data"] != after[f"http/seed/{mac}/meta-data"]
    assert parse_offer(after[f"http/plan/{mac}.env"]).consents == {"SIM-DR-1001A": "empty"}


def test_a_consent_is_used_once(tmp_path: Path) -> None:
    consent = {"S1": HELD, "S2": HELD}
    assert decided(tmp_path, consent, d1=FOREIGN, d2=FOREIGN) == "write S1 S2"
    written = {"d1": ours("written", "S1", "a" * 64), "d2": ours("written", "S2", "b" * 64)}
    said = f"already-written image gpu 0123456789ab on S1={'a' * 64} S2={'b' * 64}"
    assert decided(tmp_path, consent, **written) == said, "what a consent to write it once more would name"
    again = {"S1": "a" * 64, "S2": "b" * 64}
    assert decided(tmp_path, again, **written) == "write S1 S2"
    later = {"d1": ("", "c" * 64), "d2": ours("written", "S2", "b" * 64)}
    assert decided(tmp_path, consent, **later) == f"foreign-content drive S1 holds {'c' * 64}"


def test_a_writing_that_lost_its_power_goes_on_without_consent(tmp_path: Path) -> None:
    assert decided(tmp_path, {}, d1=ours("writing", "S1"), d2=ours("writing", "S2")) == "write S1 S2"


@pytest.mark.parametrize("serial", ["S2", "S9"])
def test_the_mark_of_another_drive_or_server_is_no_permission(tmp_path: Path, serial: str) -> None:
    assert decided(tmp_path, {}, d1=ours("writing", serial), d2=EMPTY) == f"foreign-content drive S1 holds {OTHER}"


def test_another_version_of_the_image_asks_for_consent(tmp_path: Path) -> None:
    old = {name: ours("written", serial, version="ffffffffffff") for name, serial in (("d1", "S1"), ("d2", "S2"))}
    assert decided(tmp_path, {}, **old) == f"foreign-content drive S1 holds {OTHER}, drive S2 holds {OTHER}"
    assert decided(tmp_path, {"S1": OTHER, "S2": OTHER}, **old) == "write S1 S2"


def test_a_new_drive_beside_one_that_holds_the_system_is_not_written(tmp_path: Path) -> None:
    assert decided(tmp_path, {}, d1=ours("written", "S1"), d2=EMPTY).startswith("half-new  S1=")
