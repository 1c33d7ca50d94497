"""A table of secrets gives each device the one of its row, and says what is wrong without showing any."""

import csv
import io
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inventory.secret_tables import MAX_CELL, Owner, Table, TableError, read_table

SECRET = "hunter2"
GPU1 = Owner("gpu001", "S312345X1", "3c:ec:ef:00:00:01")
FORMS = {
    "bmc.csv": f"device,serial,mac,password\ngpu001,,,{SECRET}\n,s-312345x2,,other\n,,3C-EC-EF-00-00-03,third\n",
    "bmc.yaml": f"- {{device: gpu001, password: {SECRET}}}\n- serial: s-312345x2\n  password: other\n"
    "- {mac: 3C-EC-EF-00-00-03, password: third}\n",
}


def table(folder: Path, text: str | bytes, name: str = "bmc.csv", key: str = "password", mode: int = 0o600) -> Table:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return read_table(path, key, f"table:{name}#{key}")


def refusal(folder: Path, text: str | bytes, name: str = "bmc.csv", key: str = "password", owner: Owner = GPU1) -> str:
    """What is said instead of a secret, and that it shows none."""
    with pytest.raises(TableError) as caught:
        table(folder, text, name, key).secret(owner)
    assert SECRET not in str(caught.value)
    assert str(caught.value).startswith(f"table:{name}#{key}: {folder / name}")
    return str(caught.value)


@pytest.mark.parametrize("name", FORMS)
def test_a_row_is_found_by_name_serial_or_mac(name: str, tmp_path: Path) -> None:
    found = table(tmp_path, FORMS[name], name)
    assert found.secret(GPU1) == SECRET
    assert found.secret(Owner("gpu002", "S312345X2")) == "other"
    assert found.secret(Owner("gpu003", "S3", "3c:ec:ef:00:00:03")) == "third"


def test_values_of_yaml_are_text_as_it_is_written(tmp_path: Path) -> None:
    text = "- {device: gpu001, password: 0012}\n- {device: gpu002, password: 1e3}\n- {device: gpu003, password: yes}\n"
    found = table(tmp_path, text, "bmc.yml")
    assert [found.secret(Owner(f"gpu00{n}")) for n in (1, 2, 3)] == ["0012", "1e3", "yes"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "an empty file"),
        (f"gpu001,{SECRET}\n", "bmc.csv:1: none of the columns device, serial and mac"),
        (f"device,pass\ngpu001,{SECRET}\n", "bmc.csv:1: no column password"),
        (f"device,password,password\ngpu001,{SECRET},x\n", "bmc.csv:1: a column twice"),
        (f"device,password\ngpu001,{SECRET},x\n", "bmc.csv:2: 3 cells, expected 2"),
        (f"device,password\ngpu001,x\ngpu001,{SECRET}\n", "bmc.csv:3: device of line 2 again"),
        (f"serial,password\nS312345X1,x\ns-312345x1,{SECRET}\n", "bmc.csv:3: serial of line 2 again"),
        (f"device,password\n,{SECRET}\n", "bmc.csv:2: no device, serial or mac"),
        (f"device,password\ngpu001, {SECRET}\n", "bmc.csv:2: password: expected at most"),
        (f"device,password\ngpu001,{SECRET * MAX_CELL}\n", "bmc.csv:2: password: expected at most"),
        (f'device,password\ngpu001,"{SECRET}\n', "not CSV"),
        (f'device,password\ngpu001,"{SECRET}"x\n', "bmc.csv:2: not CSV"),
        (f"device,password\ngpu002,{SECRET}\n", "no row of device gpu001 serial S312345X1 mac"),
        ("device,password\ngpu001,\n", "bmc.csv:2: no password of device gpu001"),
        (f"device,serial,password\ngpu001,S-OTHER,{SECRET}\n", "bmc.csv:2: the row of .* has another serial"),
        (f"device,serial,password\ngpu001,,{SECRET}\n,S312345X1,x\n", "lines 2 and 3 are both about device gpu001"),
        (f"device,password\ngpu001,{SECRET}\xff\n".encode("latin-1"), "bmc.csv:2: not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_csv_table_is_named_with_its_line(text: str | bytes, says: str, tmp_path: Path) -> None:
    assert re.search(says, refusal(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "an empty file"),
        (f"device: gpu001\npassword: {SECRET}\n", "bmc.yaml:1: expected one list of rows"),
        (f"- gpu001: {{password: {SECRET}}}\n", "bmc.yaml:1: expected one list of rows"),
        (f"- &a {{device: gpu001, password: {SECRET}}}\n", "bmc.yaml:1: expected one list of rows"),
        (f"- {{device: gpu001, password: !!str {SECRET}}}\n", "bmc.yaml:1: expected one list of rows"),
        (f"- {{device: gpu001, device: gpu002, password: {SECRET}}}\n", "bmc.yaml:1: a key twice in one row"),
        (f"- {{device: gpu001, password: {SECRET}}}\n---\n- x\n", "bmc.yaml:2: expected one list of rows"),
        (f"- {{device: gpu001, password: '{SECRET}}}\n", "not YAML"),
        (f"- {{device: gpu001}}\n- {{device: gpu002, password: {SECRET}}}\n", "bmc.yaml:1: no column password"),
        (f"- {{device: gpu001, password: {SECRET}\x00}}\n", "a character that YAML does not allow"),
    ],
)
def test_what_is_wrong_with_a_yaml_table_is_named_with_its_line(text: str, says: str, tmp_path: Path) -> None:
    assert says in refusal(tmp_path, text, "bmc.yaml")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_table_that_others_can_read_or_write_is_refused(mode: int, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=f"mode {mode:04o} .* expected 0600: chmod 600"):
        table(tmp_path, FORMS["bmc.csv"], mode=mode)


def test_a_table_in_a_working_tree_of_git_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "site").mkdir()
    with pytest.raises(TableError, match="it lies in the Git working tree"):
        table(tmp_path / "site", FORMS["bmc.csv"])


def test_other_files_and_columns_are_refused(tmp_path: Path) -> None:
    assert "ends in .csv, .yaml or .yml" in refusal(tmp_path, FORMS["bmc.csv"], "bmc.xlsx")
    assert "name the column of the secret" in refusal(tmp_path, FORMS["bmc.csv"], key="serial")
    with pytest.raises(TableError, match="cannot be read: No such file"):
        read_table(tmp_path / "none.csv", "password", "table:none.csv#password")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match="cannot be read: no regular file"):
        read_table(tmp_path / "folder.csv", "password", "table:folder.csv#password")


PASSWORDS = st.text(st.characters(min_codepoint=33, max_codepoint=0x17F), min_size=1, max_size=24).filter(
    lambda text: text.isprintable() and text == text.strip()
)


@given(secrets=st.lists(PASSWORDS, min_size=1, max_size=8), by=st.sampled_from(["device", "serial", "mac"]))
def test_every_device_gets_the_secret_of_its_row_whatever_it_is(
    secrets: list[str], by: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    owners = [Owner(f"gpu{n}", f"S{n}X", f"02:00:5e:00:00:0{n}") for n in range(len(secrets))]
    rows = [{by: getattr(owner, by), "password": secret} for owner, secret in zip(owners, secrets, strict=True)]
    text = io.StringIO()
    writer = csv.DictWriter(text, [by, "password"])
    writer.writeheader()
    writer.writerows(rows)
    folder = tmp_path_factory.mktemp("table")
    for name, content in (("t.csv", text.getvalue()), ("t.yaml", yaml.safe_dump(rows, allow_unicode=True))):
        found = table(folder, content, name)
        assert [found.secret(owner) for owner in owners] == secrets


@given(data=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: ("device,password\n" + text).encode()))
def test_any_bytes_are_a_table_or_a_named_refusal(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    for name in ("t.csv", "t.yaml"):
        said = ""
        try:
            table(folder, data, name).secret(GPU1)
        except TableError as error:
            said = str(error)
        assert not said or said.startswith(f"table:{name}#password: {folder / name}")
