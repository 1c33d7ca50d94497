"""Changes of a site file that leave its comments, order and quotes as they are.

text = edited(text, {"rack": {"servers": 4}}, {"rack": {"servers": 3}})

In: the text and its values before and after. Out: the text. Lines of a flow mapping that runs over several are joined.
"""

import io
from collections.abc import Mapping, MutableMapping, MutableSequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter

NO_WRAP = 1_000_000
"""Width at which no line is broken."""


class _Representer(RoundTripRepresenter):
    """Writes `null` where a file drops what its reference design gives; an empty value would look forgotten."""

    def represent_none(self, data: None) -> ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:null", "null")


_Representer.add_representer(type(None), _Representer.represent_none)


def edited(text: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The text of a site file with values `before`, so that it has those `after`."""
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = NO_WRAP
    yaml.indent(mapping=2, sequence=4, offset=2)
    document = yaml.load(text)
    _change(document, before, after)
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _change(node: Any, before: Any, after: Any) -> None:
    """Put into a node of the document what differs below it."""
    if isinstance(node, MutableMapping):
        for key in [key for key in node if key not in after]:
            del node[key]
        for key, value in after.items():
            if key not in before or not _alike(node[key], before[key], value):
                node[key] = _plain(value)
            elif value != before[key]:
                _change(node[key], before[key], value)
    elif isinstance(node, MutableSequence):
        for n, value in enumerate(after):
            if not _alike(node[n], before[n], value):
                node[n] = _plain(value)
            elif value != before[n]:
                _change(node[n], before[n], value)


def _alike(node: Any, before: Any, after: Any) -> bool:
    """Whether a value can be changed inside its node: equal, or both mappings, or both lists of one length."""
    if before == after:
        return True
    if isinstance(node, MutableMapping):
        return isinstance(before, Mapping) and isinstance(after, Mapping)
    return isinstance(node, MutableSequence) and isinstance(after, tuple) and len(after) == len(before)


def _plain(value: Any) -> Any:
    """A value of lists and dictionaries, as the writer takes them."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
