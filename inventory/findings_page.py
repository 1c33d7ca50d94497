"""``python -m inventory.findings_page``: write docs/findings.md from the registry, so that the two cannot disagree."""

from inventory.findings_registry import Entry, registry
from inventory.paths import repo_root, write_file
from inventory.references import link

HEAD = """# Findings

<!-- Written by `python -m inventory.findings_page` from inventory/findings.yaml. Do not edit by hand. -->

A finding states what is wrong with the plan, a device or an imported file. Its id is stable: waivers, tests and reports name it.
`error` blocks an apply and the gate, `warning` and `info` do not. `bringup waive` accepts an error finding for a limited time,
with an owner and a reason, unless it is about safety.

Findings that the site file can resolve carry remedies: values of site keys, or a change in words. `bringup plan` tries each value
before it prints it: `(brings CABLE-REACH)`, `(not enough alone)` and `(refused by the site file)` say what one lacks that does not
resolve its finding. `bringup plan --fix` applies those of errors. These findings carry none:
"""
IN_WORDS = """
The remedies of these findings are words, because no value of a site key resolves them by itself:
"""


def markdown() -> str:
    """The page as text: a section for each first part of the ids, an entry for each finding."""
    entries = registry().values()
    parts = [HEAD, *(f"- {entry.id}: {entry.no_remedy}" for entry in entries if entry.no_remedy)]
    parts += [IN_WORDS, *(f"- {entry.id}: {entry.in_words}" for entry in entries if entry.in_words), ""]
    area = ""
    for entry in entries:
        if (first := entry.id.split("-", 1)[0]) != area:
            area = first
            parts.append(f"## {area}\n")
        parts.append(_section(entry))
    return "\n".join(parts)


def anchor(id_: str) -> str:
    """The anchor of a finding in docs/findings.md, as Markdown renderers make it of the heading."""
    return id_.lower()


def _section(entry: Entry) -> str:
    lines = [f"### {entry.id}", "", f"**{entry.title}** ({', '.join(entry.severity)})", "", entry.meaning, ""]
    lines += [f"What to do: {entry.do}", ""]
    if entry.related:
        lines += [f"Related: {', '.join(map(link, entry.related))}", ""]
    if entry.keys:
        lines += ["Site keys: " + ", ".join(f"`{key}`" for key in entry.keys), ""]
    if entry.no_site_key:
        lines += [f"No site key resolves it: {entry.no_site_key}", ""]
    if entry.no_remedy:
        lines += [f"No remedy: {entry.no_remedy}", ""]
    if entry.in_words:
        lines += [f"Remedies in words: {entry.in_words}", ""]
    if entry.safety:
        lines += [f"No waiver: {entry.safety}.", ""]
    if entry.formerly:
        lines += [f"Formerly: {', '.join(entry.formerly)}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(f"wrote {write_file(repo_root() / 'docs' / 'findings.md', markdown())}")
