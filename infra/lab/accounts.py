"""Accounts of a simulated BMC: salted hashes, compared in constant time.

One SHA-256 round, not a slow hash: the passwords are random, live as long as the lab, and are checked on every request.
"""

import hashlib
import hmac
import secrets
from typing import Any


def account(user: str, password: str, role: str = "Administrator") -> dict[str, Any]:
    """A new account as the power daemon keeps it."""
    return {"user": user, "role": role, "enabled": True, **_hashed(password)}


def _hashed(password: str, salt: str = "") -> dict[str, str]:
    salt = salt or secrets.token_hex(16)
    return {"salt": salt, "hash": hashlib.sha256(f"{salt}:{password}".encode()).hexdigest()}


def with_password(old: dict[str, Any], password: str) -> dict[str, Any]:
    """The account with another password, which nobody wants changed."""
    return {**old, **_hashed(password), "must_change": False}


def may_only_change(accounts: dict[str, dict[str, Any]], user: str) -> str:
    """The number of a user's account that can do nothing but change its password; '' where there is none."""
    return next((number for number, one in accounts.items() if one["user"] == user and one.get("must_change")), "")


def accepts(accounts: dict[str, dict[str, Any]], user: str, password: str) -> bool:
    """Whether one of the accounts is enabled and has this name and password."""
    found = False
    for entry in accounts.values():
        same = hmac.compare_digest(_hashed(password, entry["salt"])["hash"], entry["hash"])
        found |= same and entry["enabled"] and hmac.compare_digest(entry["user"].encode(), user.encode())
    return found
