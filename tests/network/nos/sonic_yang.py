"""config_db.json held against SONiC's published YANG models by yanglint (libyang), which we did not write.

    checker = Checker(folder)                 # folder: where the data files and the rendered templates go
    checker.complaints(tables)                # '' if the models accept {table: {key: fields}}

config_db.json has flat keys ("default|Ethernet0") and strings for all values. The models have a list for each number of key
parts, and typed values. The tables are written as XML, which has no types, so nothing here knows what a value has to be. Which
lists and keys a table has is read from yanglint's own tree of the models.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import jinja2

MODELS = Path(__file__).parents[3] / "third_party" / "sonic-yang-models"
BUDGET_S = 60
NODE = re.compile(r"^(?P<indent>[ |]*)\+--rw (?P<name>[^ *?]+)(?P<mark>[*?]?)(?: +\[(?P<keys>[^]]*)\])?")
IMPORT = re.compile(r"^\s*import\s+(sonic-[a-z0-9_-]+)", re.MULTILINE)
NAMESPACE = re.compile(r'^\s*namespace\s+"([^"]+)"', re.MULTILINE)


@dataclass
class Node:
    """A node of a model: list keys in order, and what is in it."""

    name: str
    keys: tuple[str, ...] = ()
    many: bool = False
    parts: "dict[str, Node]" = field(default_factory=dict)


class Checker:
    """The models of all tables of third_party/sonic-yang-models."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path in MODELS.glob("yang-models/*.yang"):
            shutil.copy(path, folder)
        for path in MODELS.glob("yang-templates/*.j2"):
            text = jinja2.Template(path.read_text()).render(yang_model_type="py")
            (folder / path.name.removesuffix(".j2")).write_text(text)
        self.modules = {path.stem: path for path in sorted(folder.glob("sonic-*.yang"))}
        self.tables: dict[str, tuple[str, Node]] = {}
        for module in self.modules:
            for node in tree(self._yanglint("-f", "tree", self.modules[module].name).stdout).parts.values():
                self.tables.update({table: (module, part) for table, part in node.parts.items()})

    def complaints(self, tables: dict[str, Any]) -> str:
        """What yanglint has against the tables; '' if nothing."""
        roots: dict[str, Element] = {}
        for table, rows in tables.items():
            if table not in self.tables:
                return f"no model has the table {table}"
            module, node = self.tables[table]
            if module not in roots:
                (namespace,) = NAMESPACE.findall(self.modules[module].read_text())
                roots[module] = Element(module, xmlns=namespace)
            fill(SubElement(roots[module], table), node, rows)
        data = self.folder / "config.xml"
        data.write_text("".join(tostring(root, encoding="unicode") for root in roots.values()))
        # conditions of a module refer to modules that it imports, which libyang knows only if they are loaded too
        imported = {name for module in roots for name in IMPORT.findall(self.modules[module].read_text())}
        modules = [self.modules[name].name for name in [*roots, *sorted(imported & set(self.modules) - set(roots))]]
        done = self._yanglint("-t", "config", *modules, data.name)
        return "" if done.returncode == 0 else done.stderr or done.stdout

    def _yanglint(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["yanglint", "-p", ".", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=BUDGET_S, check=False)


def tree(text: str) -> Node:
    """Nodes of one module, from `yanglint -f tree`."""
    root = Node("")
    open_nodes = [(-1, root)]
    for line in text.splitlines():
        match = NODE.match(line)
        if match is None:
            continue
        depth = len(match["indent"])
        while open_nodes[-1][0] >= depth:
            open_nodes.pop()
        node = Node(match["name"], tuple((match["keys"] or "").split()), match["mark"] == "*")
        open_nodes[-1][1].parts[node.name] = node
        open_nodes.append((depth, node))
    return root


def fill(parent: Element, table: Node, rows: dict[str, dict[str, Any]]) -> None:
    """One element per row of a table: a container of the row's name, or the list with as many keys as the row's key has parts."""
    for key, fields in rows.items():
        if key in table.parts and not table.parts[key].keys:
            fill_fields(SubElement(parent, key), table.parts[key], fields)
            continue
        parts = key.split("|")
        (node,) = (part for part in table.parts.values() if len(part.keys) == len(parts))
        row = SubElement(parent, node.name)
        for name, value in zip(node.keys, parts, strict=True):
            SubElement(row, name).text = value
        fill_fields(row, node, fields)


def fill_fields(row: Element, node: Node, fields: dict[str, Any]) -> None:
    """Leaves of a row. Where a row is a map, as DSCP_TO_TC_MAP, its fields are entries of an inner list of one key."""
    inner = next((part for part in node.parts.values() if part.keys), None)
    for name, value in fields.items():
        if inner is not None:
            entry = SubElement(row, inner.name)
            (leaf,) = (part for part in inner.parts if part not in inner.keys)
            SubElement(entry, inner.keys[0]).text = name
            SubElement(entry, leaf).text = value
        elif name in node.parts and node.parts[name].many:
            for one in value if isinstance(value, list) else value.split(","):
                SubElement(row, name).text = one
        else:
            SubElement(row, name).text = value
