"""The last program of a load on each node: what the node's ranks kept as one result, signed with the node's own SSH host key.

    python3 sign_result.py ORDER

    {"do": "sign", "folder": FOLDER, "sign": SIGN}           writes result.json and signature.json into the folder
    {"do": "read", "folder": FOLDER, "out": FILE}            prints result, signature and the end of the job's output
    {"do": "run", "program": …, "request": …, "sign": SIGN}  prints what a program printed, and the signature on it
    {"do": "remove", "folder": FOLDER, "out": FILE}

SIGN is {"message", "namespace", "key"}, or null for no signature; DEVICE, TIME and SHA256 in the message are filled in here. A node
that cannot sign leaves an empty signature: its result stays. Standard library only, so that it can go to a node alone.
"""

import base64
import datetime
import hashlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

RESULT, SIGNATURE = "result.json", "signature.json"
BESIDE = ("samples.csv", "nccl-tests.txt")
"""What a load leaves beside the files of its ranks: the burn-in's samples of the GPUs, or what nccl-tests printed."""
TAIL_B = 4000
"""Of what a job printed: the traceback of one rank."""


def kept(folder: Path) -> bytes:
    """What the ranks wrote into the folder, as one result."""
    ranks = [path.read_text(errors="replace") for path in sorted(folder.glob("rank-*"))]
    beside = [path for path in map(folder.joinpath, BESIDE) if path.is_file()]
    text = beside[0].read_text(errors="replace") if beside else ""
    return json.dumps({"ranks": ranks, "samples": text}, indent=1).encode()


def own(folder: Path) -> bool:
    """Whether the folder is one that this user made and that not everybody can write."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & stat.S_IWOTH


def signature(result: bytes, sign: dict[str, str] | None, device: str) -> dict[str, str]:
    """{"message", "signature"} of a result; both empty where none is asked for, the signature where the key does not sign."""
    if not sign:
        return {"message": "", "signature": ""}
    message = sign["message"]
    at = datetime.datetime.now(datetime.timezone.utc).isoformat()
    for word, text in (("DEVICE", device), ("TIME", at), ("SHA256", hashlib.sha256(result).hexdigest())):
        message = message.replace(word, text)
    command = ["ssh-keygen", "-Y", "sign", "-n", sign["namespace"], "-f", sign["key"]]
    try:
        done = subprocess.run(
            command if os.getuid() == 0 else ["sudo", "-n", *command],
            input=message.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        return {"message": message, "signature": ""}
    return {"message": message, "signature": done.stdout.decode(errors="replace")}


def sign_kept(folder: Path, sign: dict[str, str] | None, device: str) -> None:
    """Write what the ranks kept as one file, and the signature beside it."""
    if not own(folder):
        sys.exit(f"{folder}: a link, or a folder that another user made or everybody can write: nothing is signed")
    result = kept(folder)
    (folder / RESULT).write_bytes(result)
    (folder / SIGNATURE).write_text(json.dumps(signature(result, sign, device)))


def read(folder: Path, out: Path) -> dict[str, str]:
    """The result that was signed, or what the ranks have kept so far, and the end of what the job printed."""
    said = out.read_bytes()[-TAIL_B:].decode(errors="replace") if out.is_file() else ""
    signed = {"message": "", "signature": ""}
    result = kept(folder)
    if (folder / SIGNATURE).is_file():
        result, signed = (folder / RESULT).read_bytes(), json.loads((folder / SIGNATURE).read_text())
    return {"result": base64.b64encode(result).decode(), "said": said, **signed}


def main() -> None:
    order: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(os.path.expandvars(order.get("folder", "")))
    device = order.get("device") or os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    if order["do"] == "sign":
        sign_kept(folder, order["sign"], device)
    elif order["do"] == "read":
        print(json.dumps(read(folder, Path(order["out"]))))
    elif order["do"] == "remove":
        shutil.rmtree(folder, ignore_errors=True)
        Path(order["out"]).unlink(missing_ok=True)
        print("true")
    else:
        command = [sys.executable, "-c", order["program"], json.dumps(order["request"])]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        if done.returncode:
            sys.exit(done.returncode)  # it has said why
        signed = signature(done.stdout, order["sign"], device)
        print(json.dumps({"result": base64.b64encode(done.stdout).decode(), **signed}))


if __name__ == "__main__":
    main()
