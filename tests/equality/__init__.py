"""`make equality`: what the product says about 214 sites and all recorded faults, compared with a stored baseline.

It proves that a change which should move code moves nothing else. For the 4 shipped sites, 207 random sites and every
recorded fault it collects, as one JSON line per site and thing:

    load                         whether the site file is accepted
    frame/<name>                 rows, and a hash of every column, of each frame of the plan
    finding/<ID>/<subject>/<n>   severity, numbers, limit, limit_source, err, ports; `message` is a hash of the text
    hashes                       every hash in the plan (`site.*`, `frame.*`, …) and that of the plan itself
    summary/<key>                a hash of each top-level key of summary.json
    file/<verb>/<name>           a hash of each file that `bringup plan`, `render` and `export` write, as it is (`text`), and of
                                 the numbers in it, in any order (`numbers`): rewording changes only the first
    ansible/<what>               variables that the inventory plugin hands to Ansible: Slurm, telemetry, nodes
    slurm/<file>                 Slurm's files as the role templates write them
    check/<item>/<subject>       recorded faults: whether the check passes and what it measured

    make equality                            compare this tree with the baseline: no line and exit 0, or a line a difference
    make equality-record                     write the baseline anew from this tree
    python -m tests.equality --tree DIR      compare another tree, of another layout, with the same harness
    python -m tests.equality --messages      compare the texts of findings, too
    python -m tests.equality --only 'lab'    only sites (or faults) that match; may be repeated
    make equality EVERY=10                   a quick look: every tenth random site only
    python -m tests.equality --diff A B      compare two files written with --out
    python -m tests.equality.draw            draw the random sites anew (only for a new set: the fixture is what counts)
    python -m tests.equality.mutants --help  the same seeded mutants in two trees: what is killed where

A difference that was wanted is listed in accepted.yaml with the commit that wanted it. An entry that matches nothing is
reported too.

random_sites.jsonl.xz holds the drawn site files as text, so that trees of any age and any version of hypothesis plan the
same sites. baseline.jsonl.xz was recorded from commit 20c424f.

Nothing in a record depends on the machine or the day (docs/decisions/0140-equality-report.md): folders are `<tree>` and
`<out>`, numbers have nine significant digits, Parquet is read and not hashed, a PDF is what typst was given to set.
"""
