"""The verdict of the gate as JUnit XML, for a CI system: one test case per item that applies to the site.

    text = junit_of(data)        # the plain data of the verdict, as `bringup gate --json` prints it

An item that counts passes. One that a rehearsal does not exercise, or that does not apply, is skipped. Every other one
fails with its status and detail: in a rehearsal an item whose evidence is simulated counts. Evidence that cannot be
trusted, or was not judged, is one failed case. Pure.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

COUNTS = ("pass", "external", "waived")
SKIPPED = ("not_applicable", "not_exercised")
IN_A_REHEARSAL = ("partial", "unproven", "simulated", "assumed")
"""Statuses that leave a rehearsal passed (verdict.py); its exit status says the same."""
NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no place for (https://www.w3.org/TR/xml/#charsets)."""


def junit_of(data: Mapping[str, Any]) -> str:
    """JUnit XML of a verdict's plain data. KeyError where the data are no verdict's."""
    site = str(data["site"])
    suite = ET.Element("testsuite", name=_text(f"bringup gate {site}"), timestamp=str(data["judged"]))
    counts = (*COUNTS, *IN_A_REHEARSAL) if data.get("rehearsal") else COUNTS
    failures = skipped = 0
    for item in data.get("items", ()):
        case = ET.SubElement(suite, "testcase", classname=_text(site), name=_text(item["id"]))
        if item["status"] in SKIPPED:
            skipped += 1
            ET.SubElement(case, "skipped", message=_text(item["detail"]))
        elif item["status"] not in counts:
            failures += 1
            ET.SubElement(case, "failure", type=item["status"], message=_text(f"{item['status']}: {item['detail']}"))
        elif item["status"] != "pass":
            ET.SubElement(case, "system-out").text = _text(f"{item['status']}: {item['detail']}")
    case = ET.SubElement(suite, "testcase", classname=_text(site), name="verdict")
    if data["exit_code"]:
        failures += 1
        why = "; ".join(map(str, data.get("reasons", data.get("broken", ()))))
        ET.SubElement(case, "failure", type="verdict", message=_text(f"{data['verdict']}: {why}"))
    suite.set("tests", str(len(data.get("items", ())) + 1))
    suite.set("failures", str(failures))
    suite.set("skipped", str(skipped))
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _text(said: str) -> str:
    return NO_XML.sub("\ufffd", said)
