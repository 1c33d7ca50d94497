"""What sits in the cages of switches and servers: which ports share one, which part fits both ends, and what is bought.

In: cables (network.fabric.LINK_COLUMNS with `rate_gbps` and `length_m`), the model of each device, the catalogue and a table
of parts. Out: the cages at both ends of each cable, the groups of cables that have to be of one kind, the plugs and the
cables as they are bought. Vectorised: no Python object per cable.

A twin-port cage takes one plug for both of its ports, so the two cables in it are of one medium and part (section "media" of
the catalogue); cables that share cages with one another are a group. A straight cable between twin-port cages is one piece for
two links, and so is a splitter with its tails.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.catalog import Cage, Catalog, MediaPart, Plug
from network.graph import pieces

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_UNKNOWN = Cage("", "", 1)
_PER_DEVICE = 1 << 20


@dataclass(frozen=True, eq=False)
class Ends:
    """Both ends (rows: a, b) of each cable: number of the cage in its device, its code in the site, its kind."""

    number: Ints
    code: Ints
    kind: Ints
    kinds: tuple[Cage, ...]

    @property
    def cages(self) -> int:
        """Cages with a cable."""
        return int(self.code.max()) + 1 if self.code.size else 0


def ends(cables: pd.DataFrame, model_of: Mapping[str, str], catalog: Catalog) -> Ends:
    """The cages of `cables`; `model_of` gives the catalogue slug of each device. A port that its model does not list has a
    cage of its own, of unknown form.
    """
    slugs = sorted(set(model_of.values()))
    cages = [catalog.device(slug).cages() for slug in slugs]
    slug_of = {slug: i for i, slug in enumerate(slugs)}
    kinds: dict[Cage, int] = {}
    shape = (2, len(cables))
    number, code, kind = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    place = {name: i for i, name in enumerate(model_of)}
    for end, side in enumerate("ab"):
        device, names = _factorize(cables[f"{side}_device"])
        port, ports = _factorize(cables[f"{side}_port"])
        model = np.array([slug_of[model_of[name]] for name in names], dtype=np.int64)
        found = [[known.get(name, (len(known) + 1 + i, _UNKNOWN)) for i, name in enumerate(ports)] for known in cages]
        numbers = np.array([[n for n, _ in row] for row in found], dtype=np.int64).reshape(len(slugs), len(ports))
        of = np.array(
            [[kinds.setdefault(cage, len(kinds)) for _, cage in row] for row in found], dtype=np.int64
        ).reshape(len(slugs), len(ports))
        at = model[device], port
        number[end], kind[end] = numbers[at], of[at]
        code[end] = np.array([place[name] for name in names], dtype=np.int64)[device] * _PER_DEVICE + number[end]
    return Ends(number, pd.factorize(code.ravel())[0].reshape(shape), kind, tuple(kinds))


def _factorize(texts: pd.Series) -> tuple[Ints, list[str]]:
    codes, uniques = pd.factorize(texts)
    return codes, pd.Index(uniques).to_numpy(dtype=object).tolist()


def groups(at: Ends) -> Ints:
    """Group of each cable, from 0: cables that share a cage with one another, directly or through others."""
    label = pieces(at.code[0], at.code[1], at.cages)
    return np.unique(label[at.code[0]], return_inverse=True)[1].astype(np.int64)


def fitting(at: Ends, group: Ints, parts: Sequence[MediaPart]) -> Bools:
    """Which part (rows) may join the two ends of which cable (columns)."""
    count = len(at.kinds)
    joins = np.array([[[part.joins(a, b) for b in at.kinds] for a in at.kinds] for part in parts], dtype=bool).reshape(
        len(parts), count, count
    )
    allowed: Bools = joins[:, at.kind[0], at.kind[1]]
    shared = np.array([cage.ports > 1 for cage in at.kinds], dtype=bool)[at.kind].all(axis=0)
    cage_group = np.zeros(at.cages, dtype=np.int64)
    cage_group[at.code[0]] = cage_group[at.code[1]] = group
    alone = np.bincount(cage_group)[group] == 2 if len(group) else np.zeros(0, dtype=bool)
    straight = np.array([part.shape == "straight" for part in parts], dtype=bool)
    allowed[straight] &= ~shared | alone
    return allowed


@dataclass(frozen=True, eq=False)
class Fitted:
    """What the cables of a plan take, as it is bought.

    `plugs`: one row an occupied cage: end (0 a, 1 b) and cable of one of its ports, part and plug (numbers in `parts` and
    `known`), power_w, fibre (whether it is a transceiver). `pieces`: one row a cable as it is bought: cable (its first link),
    part, length_m (of its longest link). `piece_of`: row in `pieces` of each link, -1 for one without a part.
    """

    parts: Sequence[MediaPart]
    known: Sequence[Plug]
    plugs: pd.DataFrame
    pieces: pd.DataFrame
    piece_of: Ints


def fitted(cables: pd.DataFrame, at: Ends, parts: Sequence[MediaPart]) -> Fitted:
    """Plugs and pieces of cables with a column `part`; those without a part have none."""
    number = {part.part: i for i, part in enumerate(parts)}
    codes, names = pd.factorize(cables["part"])
    part = np.array([number.get(name, -1) for name in names], dtype=np.int64)[codes]
    held = np.flatnonzero(part >= 0)
    known = [plug for given in parts for plug in given.plugs]
    return Fitted(parts, known, _plugs(at, part, held, parts, known), *_pieces(cables, at, part, held, parts))


def _plugs(at: Ends, part: Ints, held: Ints, parts: Sequence[MediaPart], known: Sequence[Plug]) -> pd.DataFrame:
    number = {id(plug): i for i, plug in enumerate(known)}
    chosen = np.array(
        [[number[id(given.plug(kind) or given.plugs[0])] for kind in at.kinds] for given in parts], dtype=np.int64
    ).reshape(len(parts), len(at.kinds))
    # One plug a cage; two where its cables were given different parts, which is a finding of its own.
    cage = at.code[:, held].ravel() * len(parts) + np.tile(part[held], 2)
    first = np.flatnonzero(~pd.Series(cage).duplicated().to_numpy())
    end, row = np.divmod(first, max(len(held), 1))
    row = held[row]
    plug = chosen[part[row], at.kind[end, row]]
    return pd.DataFrame(
        {
            "end": end,
            "cable": row,
            "part": part[row],
            "plug": plug,
            "power_w": np.array([given.power_w for given in known], dtype=np.float64)[plug],
            "fibre": np.array([given.shape == "fibre" for given in parts], dtype=bool)[part[row]],
        }
    )


def watts_of(cables: pd.DataFrame, made: Fitted) -> pd.Series:
    """Watts of what sits in the cages of each device, by its name; devices with nothing in their cages are left out."""
    plugs = made.plugs
    row, end = plugs["cable"].to_numpy(dtype=np.int64), plugs["end"].to_numpy(dtype=np.int64)
    device = np.where(
        end == 0, cables["a_device"].to_numpy(dtype=object)[row], cables["b_device"].to_numpy(dtype=object)[row]
    )
    return plugs["power_w"].groupby(device).sum()


def _pieces(
    cables: pd.DataFrame, at: Ends, part: Ints, held: Ints, parts: Sequence[MediaPart]
) -> tuple[pd.DataFrame, Ints]:
    ports = np.array([cage.ports for cage in at.kinds], dtype=np.int64)[at.kind]
    joined = np.array([given.shape != "fibre" for given in parts], dtype=bool)[part] & (ports.max(axis=0) > 1)
    head = np.where(ports[0] >= ports[1], at.code[0], at.code[1])
    piece, keys = pd.factorize(np.where(joined, head, at.cages + np.arange(len(cables)))[held])
    first = np.flatnonzero(~pd.Series(piece).duplicated().to_numpy())
    length = np.zeros(len(keys))
    np.maximum.at(length, piece, cables["length_m"].to_numpy(dtype=np.float64)[held])
    row = held[first]
    piece_of = np.full(len(cables), -1, dtype=np.int64)
    piece_of[held] = piece
    return pd.DataFrame({"cable": row, "part": part[row], "length_m": length}), piece_of
