"""docs/roles.md from the roles' argument specifications.

python playbooks/roles_doc.py           prints the page
python playbooks/roles_doc.py --write   writes it; a test compares
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
ROLES = ROOT / "playbooks" / "roles"
PAGE = ROOT / "docs" / "roles.md"
HEAD = """# Roles

Written by `python playbooks/roles_doc.py --write` from `playbooks/roles/*/meta/argument_specs.yml`.

    ansible-playbook playbooks/site.yml -i inventory/sites/<site>/site.yaml [--check --diff] [--limit gpu001]

    ansible-playbook playbooks/boot.yml -i inventory/sites/<site>/site.yaml        boot server: [network-boot.md](network-boot.md)

    ansible-playbook playbooks/gpu_sharing.yml -i inventory/sites/<site>/site.yaml     shared GPUs: [kubernetes.md](kubernetes.md)

The inventory is the plan: hosts, groups (gpu, controller, storage, management; compute; rack_<name> under racks) and the variables
that start with `bringup_` are computed from the site file. Everything else has a default here and can be set with `-e` or in
`playbooks/group_vars`. A second run changes nothing; `--check --diff` shows drift. Each run leaves a summary in
`var/<site>/ansible/`.

Before anything changes, each node's repositories are asked for every package that the node lacks, in the pinned version. What
cannot be had stops the run for all nodes, as one list by package with its nodes. `--check` does the same.

`eval "$(bringup env --mitogen)"` lets Ansible use mitogen's strategy: one Python per node for the whole run instead of one per
task. The same tasks run ([decision 0168](decisions/0168-mitogen-as-an-option.md)). Without it, plain Ansible runs.
"""


def plays() -> dict[str, list[str]]:
    """Role -> host patterns of the plays that apply it, dependencies included."""
    found: dict[str, list[str]] = {}
    books = (ROOT / "playbooks" / name for name in ("boot.yml", "gpu_sharing.yml", "site.yml"))
    for play in (play for book in books for play in yaml.safe_load(book.read_text())):
        for role in play.get("roles", []):
            for name in with_dependencies(role):
                if play["hosts"] not in found.setdefault(name, []):
                    found[name].append(play["hosts"])
    return found


def with_dependencies(role: str) -> list[str]:
    """The role after those that it depends on, each once."""
    meta = ROLES / role / "meta" / "main.yml"
    needs = yaml.safe_load(meta.read_text())["dependencies"] if meta.exists() else []
    return list(dict.fromkeys([*(name for need in needs for name in with_dependencies(need["role"])), role]))


def plain(text: Any) -> str:
    """One line of Markdown from a description: `x` for C(x)."""
    words = " ".join(text if isinstance(text, list) else [str(text)]).split()
    out, line = "", " ".join(words)
    while "C(" in line:
        before, _, rest = line.partition("C(")
        code, _, line = rest.partition(")")
        out += f"{before}`{code}`"
    return out + line


def rows(options: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, option in options.items():
        default = "required" if option.get("required") else f"`{option.get('default')!r}`"
        kind = f"list of {option['elements']}" if option["type"] == "list" else option["type"]
        yield f"| `{prefix}{name}` | {kind} | {default} | {plain(option['description'])} |"
        yield from rows(option.get("options", {}), f"{prefix}{name}{'[]' if option['type'] == 'list' else ''}.")


def page() -> str:
    text = HEAD
    for role, hosts in plays().items():
        spec = yaml.safe_load((ROLES / role / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]
        text += f"\n## {role}\n\n{spec['short_description']}. Hosts: {', '.join(f'`{host}`' for host in hosts)}.\n\n"
        text += "\n".join(plain(paragraph) for paragraph in spec["description"]) + "\n"
        if spec["options"]:
            text += "\n| Variable | Type | Default | Meaning |\n|---|---|---|---|\n"
            text += "\n".join(rows(spec["options"])) + "\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
