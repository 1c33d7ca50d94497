"""Ansible lookup: the value behind a secret reference of the site file, at the moment of use.

Only tasks with `no_log: true` may use it; variables of the inventory hold references, never values.
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from inventory.secrets import SecretError, resolve

DOCUMENTATION = r"""
name: bringup_secret
short_description: Value behind env:NAME, file:PATH or vault:PATH#FIELD
options:
  _terms: {description: References., required: true}
  folder: {description: Folder that relative file references start from., type: path, required: true}
"""


class LookupModule(LookupBase):
    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        folder = Path(str(self.get_option("folder")))
        try:
            return [resolve(str(term), base=folder).get_secret_value() for term in terms]
        except SecretError as error:
            raise AnsibleError(str(error)) from None
