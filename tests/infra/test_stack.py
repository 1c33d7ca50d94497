import pytest

from infra.stack import drop_salt

SALT = "encryptionsalt: v1:abc=:v1:def\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SALT, None),
        (SALT + "config:\n  bringup:site: lab\n", "config:\n  bringup:site: lab\n"),
        (SALT + "config:\n  x:y:\n    secure: v1:zzz\n", SALT + "config:\n  x:y:\n    secure: v1:zzz\n"),
    ],
)
def test_a_salt_without_a_stack_goes_unless_it_guards_a_secret(tmp_path, before, after):
    config = tmp_path / "Pulumi.lab.yaml"
    config.write_text(before)
    drop_salt(config)
    assert (config.read_text() if config.exists() else None) == after


def test_no_configuration_is_nothing_to_do(tmp_path):
    drop_salt(tmp_path / "Pulumi.lab.yaml")
    assert list(tmp_path.iterdir()) == []
