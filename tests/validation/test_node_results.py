"""What runs on a node at the end of a load: it gathers, signs with the node's key, prints, and removes."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from validation.evidence.results import Place, faults, signed_result
from validation.facts import node_results
from validation.facts.node_results import PROGRAM, Run

RUN = Run(Place("lab", "a-store"), "test-1", "ab" * 16, True)
ECHO = "import sys; print(sys.argv[1])"


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A host key that the node signs with; its public half."""
    keygen = shutil.which("ssh-keygen") or pytest.skip("ssh-keygen is not installed")
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    monkeypatch.setattr(node_results, "HOST_KEY", str(tmp_path / "key"))
    return (tmp_path / "key.pub").read_text().split()[1]


def on_node(order: dict[str, Any], **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), json.dumps(order)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, timeout=60, check=False)


def why(told: dict[str, str], key: str, **changes: Any) -> str:
    result = base64.b64decode(told["result"])
    asked: dict[str, Any] = {
        "place": RUN.place,
        "device": "gpu001",
        "nonce": RUN.nonce,
        "sha256": hashlib.sha256(result).hexdigest(),
        "at": datetime.now(UTC),
        "keys": {key},
        **changes,
    }
    return faults(signed_result("gpu001", told["message"], told["signature"]), **asked)


def test_what_a_program_prints_is_signed_where_it_ran(key: str) -> None:
    done = on_node(RUN.ordered("gpu001", ECHO, {"folder": "x"}))
    told = json.loads(done.stdout)
    assert json.loads(base64.b64decode(told["result"])) == {"folder": "x"}
    assert why(told, key) == ""
    assert "signed for gpu001 of the site lab, and the result is about gpu001 of other" in why(
        told, key, place=Place("other", "a-store")
    )
    assert "signed for the evidence store a-store" in why(told, key, place=Place("lab", "another"))
    assert "another run (test-1)" in why(told, key, nonce="cd" * 16)
    assert "signed for gpu001" in why(told, key, device="gpu002")


def test_a_program_that_fails_says_so_itself(key: str) -> None:
    done = on_node(RUN.ordered("gpu001", "import sys; sys.exit('3 of 4 clients came')", {}))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "3 of 4 clients came\n")


def test_without_an_order_nothing_is_signed() -> None:
    unsigned = Run(Place("lab", "a-store"), "test-1", "ab" * 16, False)
    assert (unsigned.step("/x"), unsigned.configuration(), unsigned.order()) == ("", {}, None)
    told = json.loads(on_node(unsigned.ordered("gpu001", ECHO, 3)).stdout)
    assert (base64.b64decode(told["result"]), told["message"], told["signature"]) == (b"3\n", "", "")


def test_a_folder_is_signed_read_and_removed(key: str, tmp_path: Path) -> None:
    folder, out = tmp_path / "kept-7", tmp_path / "out"
    folder.mkdir(mode=0o700)
    (folder / "rank-1.json").write_text("one")
    (folder / "rank-0.jsonl").write_text("nought")
    out.write_text("what the job said")
    place = {"folder": f"{tmp_path}/kept-$JOB", "out": str(out)}
    assert on_node({"do": "sign", "sign": RUN.order(), **place}, JOB="7", SLURMD_NODENAME="gpu001").returncode == 0
    place["folder"] = str(folder)
    told = json.loads(on_node({"do": "read", **place}).stdout)
    assert json.loads(base64.b64decode(told["result"])) == {"ranks": ["nought", "one"], "samples": ""}
    assert (told["said"], why(told, key)) == ("what the job said", "")
    assert on_node({"do": "remove", **place}).stdout == "true\n"
    assert not folder.exists()
    assert not out.exists()


def test_a_link_is_not_signed(key: str, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    done = on_node({"do": "sign", "sign": RUN.order(), "folder": str(tmp_path / "link")})
    assert (done.returncode, "nothing is signed" in done.stderr) == (1, True)
