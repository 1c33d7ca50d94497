"""Recaps of ansible-playbook."""

from infra.playbook import recap, total

OUTPUT = """TASK [x] ok: [gpu001]
PLAY RECAP *********************************************************************
ctl01                      : ok=31   changed=0    unreachable=0    failed=0    skipped=3    rescued=0    ignored=0
gpu001                     : ok=24   changed=2    unreachable=0    failed=1    skipped=1    rescued=0    ignored=0
"""


def test_a_recap_is_read_by_host() -> None:
    rows = recap(OUTPUT)
    assert (rows["ctl01"]["changed"], rows["gpu001"]["changed"], rows["gpu001"]["failed"]) == (0, 2, 1)
    assert recap("nothing") == {}


def test_a_recap_is_summed_over_hosts() -> None:
    assert total(recap(OUTPUT)) == "2 hosts, ok=55 changed=2 failed=1 unreachable=0"
    assert total({}) == ""
