"""What CDs would have written, read from the CDs themselves."""

from pathlib import Path

import pytest

from infra.boot import iso
from infra.install.cds import Cds
from network.drivers.errors import UnreadableAnswer
from tests.capacity.services.boot.test_starting import CONTENT, RENDERED
from tests.infra.boot.test_iso import NEEDS, built

MAC = "02-5e-00-00-00-01"


@pytest.mark.needs(*NEEDS)
def test_a_cd_offers_what_it_was_made_with_until_it_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "gpu"
    folder.mkdir()
    of, cds = built(folder), Cds(tmp_path)
    iso.write(folder, of, {f"plan/{MAC}.env": RENDERED}, "gpu.iso", "ttyS0")
    assert cds.offers()[MAC].consents == {"S1": CONTENT}
    assert (cds.reports(), cds.others()) == ({}, "")
    other = MAC.replace("01", "02")
    iso.write(folder, of, {f"plan/{other}.env": RENDERED}, "gpu.iso", "ttyS0")
    assert list(cds.offers()) == [other]


@pytest.mark.needs("xorriso")
@pytest.mark.parametrize("content", [None, b"", b"no CD" * 1000])
def test_without_a_cd_of_ours_the_verb_that_makes_one_is_named(tmp_path: Path, content: bytes | None) -> None:
    (tmp_path / "gpu").mkdir()
    if content is not None:
        (tmp_path / "gpu/gpu.iso").write_bytes(content)
    with pytest.raises(UnreadableAnswer, match="bringup image build ROLE --iso"):
        Cds(tmp_path).offers()
