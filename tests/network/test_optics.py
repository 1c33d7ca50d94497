"""Cages, plugs and the cables as they are bought: small fabrics by hand, and any wiring of any cages by its invariants."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.catalog import Cage, load_catalog
from network import optics
from network.wiring import cabling

PARTS = load_catalog().media("linkx-400g").parts
TABLE = pd.DataFrame([part.model_dump() for part in PARTS])
TWIN, DGX, CARD, DPU = (
    Cage("osfp", "finned", 2),
    Cage("osfp", "flat", 2),
    Cage("osfp", "flat", 1),
    Cage("qsfp112", "", 1),
)
KINDS = (TWIN, DGX, CARD, DPU)


def wired(
    links: list[tuple[int, Cage, int, Cage]], lengths: list[float]
) -> tuple[pd.DataFrame, optics.Ends, optics.Fitted]:
    """Links of 400 Gb/s between numbered cages, with the part of each and what is bought."""
    codes = np.array([[a for a, _, _, _ in links], [b for _, _, b, _ in links]], dtype=np.int64)
    _, codes = np.unique(codes, return_inverse=True)
    codes = codes.reshape(2, len(links))
    kinds = np.array(
        [[KINDS.index(k) for _, k, _, _ in links], [KINDS.index(k) for _, _, _, k in links]], dtype=np.int64
    )
    at = optics.Ends(codes, codes, kinds, KINDS)
    group = optics.groups(at)
    length = np.array(lengths)
    allowed = optics.fitting(at, group, PARTS)
    chosen = cabling.select_parts(pd.Series([400.0] * len(links)), length, TABLE, allowed, group)
    cables = chosen.assign(length_m=length)
    return cables, at, optics.fitted(cables, at, PARTS)


@pytest.mark.parametrize(
    ("links", "length_m", "part", "pieces", "plugs"),
    [
        ([(1, TWIN, 2, TWIN)] * 2, 1.9, "dac-400g-2m", 1, 2),
        ([(1, TWIN, 2, TWIN)] * 2, 4.5, "acc-400g-5m", 1, 2),
        ([(1, TWIN, 2, TWIN)] * 2, 20.0, "mmf-400g-sr4-50m", 2, 2),
        ([(1, TWIN, 2, CARD), (1, TWIN, 3, CARD)], 2.5, "dac-400g-splitter-3m", 1, 3),
        ([(1, DPU, 9, TWIN), (2, DPU, 9, TWIN)], 2.5, "dac-400g-splitter-qsfp112-3m", 1, 3),
        ([(1, TWIN, 2, CARD), (1, TWIN, 3, DPU)], 2.5, "mmf-400g-sr4-50m", 2, 3),
        # Two servers with two rails a cage on two leaves: copper would need a cable between each pair of cages.
        ([(1, DGX, 5, TWIN), (1, DGX, 6, TWIN), (2, DGX, 5, TWIN), (2, DGX, 6, TWIN)], 1.5, "mmf-400g-sr4-50m", 4, 4),
    ],
)
def test_the_cages_decide_what_may_be_bought(links, length_m, part, pieces, plugs):
    cables, _, fitted = wired(links, [length_m] * len(links))
    assert set(cables["part"]) == {part}
    assert (len(fitted.pieces), len(fitted.plugs)) == (pieces, plugs)


def test_the_longest_cable_of_a_cage_decides_for_both():
    cables, _, _ = wired([(1, TWIN, 2, TWIN), (1, TWIN, 3, TWIN)], [10.0, 60.0])
    assert cables["part"].tolist() == ["smf-400g-dr4-100m"] * 2


def test_a_card_has_no_optic_beyond_its_reach():
    cables, _, fitted = wired([(1, CARD, 2, TWIN)], [150.0])
    assert cables["part"].tolist() == [""]
    assert fitted.piece_of.tolist() == [-1]
    assert fitted.plugs.empty


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_wiring_has_one_plug_a_cage_and_a_piece_for_every_link(data):
    """Ports covered by plugs are those of the occupied cages; both ports of a cage have one part; every link is in one piece."""
    cages = [data.draw(st.sampled_from(KINDS)) for _ in range(data.draw(st.integers(2, 12)))]
    free = {i: cage.ports for i, cage in enumerate(cages)}
    links, lengths = [], []
    for _ in range(data.draw(st.integers(1, 14))):
        open_ = [i for i, n in free.items() if n]
        if len(open_) < 2:
            break
        a, b = data.draw(st.sampled_from(open_)), data.draw(st.sampled_from(open_))
        if a == b:
            continue
        free[a], free[b] = free[a] - 1, free[b] - 1
        links.append((a, cages[a], b, cages[b]))
        lengths.append(data.draw(st.sampled_from([1.0, 2.5, 4.0, 30.0, 80.0])))
    if not links:
        return
    cables, at, fitted = wired(links, lengths)
    part = cables["part"].to_numpy()
    assert (part != "").all()  # up to 80 m there is a part for any two of these cages
    assert len(fitted.plugs) == at.cages
    for cage in range(at.cages):
        assert len(set(np.tile(part, 2)[at.code.ravel() == cage])) == 1
    assert (fitted.piece_of >= 0).all()
    assert set(fitted.piece_of) == set(range(len(fitted.pieces)))
    fibre = cables["medium"].isin(["mmf", "smf"]).to_numpy()
    for piece in range(len(fitted.pieces)):
        rows = np.flatnonzero(fitted.piece_of == piece)
        assert len(rows) == 1 or (not fibre[rows].any() and set.intersection(*(set(at.code[:, row]) for row in rows)))
        assert fitted.pieces["length_m"][piece] == max(lengths[row] for row in rows)


def test_groups_are_the_cables_that_cages_hold_together():
    at = wired([(1, TWIN, 2, TWIN), (2, TWIN, 3, TWIN), (4, CARD, 5, CARD)], [1.0] * 3)[1]
    assert optics.groups(at).tolist() == [0, 0, 1]
