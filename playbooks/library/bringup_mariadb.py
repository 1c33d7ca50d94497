#!/usr/bin/python3
"""Ansible module: one database and the local account that owns it. The password never stands in an argument vector."""

import os
import shutil
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_mariadb
short_description: A MariaDB database and the local account of its only client
description:
  - Logs in as the account first. When that works and the database is there, nothing is changed.
options:
  database: {description: Name of the database., type: str, required: true}
  user: {description: Account at localhost., type: str, required: true}
  password: {description: Its password., type: str, required: true, no_log: true}
"""
RETURN = r"""
actions:
  description: What was done (in check mode, what would be).
  type: list
  returned: always
"""

CLIENT = "mariadb"
BUDGET_S = 30


class DatabaseError(Exception):
    """The message says what MariaDB answered; it never holds the password."""


def quoted(text: str) -> str:
    """A string literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A quoted name of SQL."""
    return "`" + name.replace("`", "``") + "`"


def statements(database: str, user: str, password: str) -> str:
    """SQL that makes database and account so, whatever was there before."""
    account = f"{quoted(user)}@'localhost'"
    return (
        f"CREATE DATABASE IF NOT EXISTS {identifier(database)};\n"
        f"CREATE OR REPLACE USER {account} IDENTIFIED BY {quoted(password)};\n"
        f"GRANT ALL ON {identifier(database)}.* TO {account};\n"
    )


def client(*words: str, sql: str, password: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "MYSQL_PWD"}
    if password is not None:
        environment["MYSQL_PWD"] = password
    try:
        return subprocess.run(
            [CLIENT, "--no-defaults", "--batch", *words],
            input=sql,
            capture_output=True,
            text=True,
            timeout=BUDGET_S,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise DatabaseError(
            f"MariaDB did not answer within {BUDGET_S} s; see `journalctl -u mariadb` on this node"
        ) from None


def fits(database: str, user: str, password: str) -> bool:
    """Whether the account gets into the database with this password."""
    return client(f"--user={user}", f"--database={database}", sql="SELECT 1;", password=password).returncode == 0


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "database": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    database, user, password = (module.params[key] for key in ("database", "user", "password"))
    actions = [f"create database {database} and account {user}@localhost"]
    try:
        if shutil.which(CLIENT) is None:
            if not module.check_mode:
                raise DatabaseError(f"{CLIENT} is not installed; is the package mariadb-server in packages.yaml?")
        elif fits(database, user, password):
            actions = []
        elif not module.check_mode:
            done = client("--user=root", sql=statements(database, user, password))
            if done.returncode:
                said = done.stderr.replace(password, "********").strip()
                raise DatabaseError(f"MariaDB refuses: {said}")
            if not fits(database, user, password):
                raise DatabaseError(f"account {user}@localhost was made, yet its login into {database} is refused")
    except (DatabaseError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(actions), actions=actions)


if __name__ == "__main__":
    main()
