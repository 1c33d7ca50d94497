"""os.repositories: whatever the schema accepts is a deb822 paragraph of just these fields."""

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from inventory.paths import repo_root
from inventory.site import json_schema
from inventory.site.sections.software import Repository

TEMPLATES = repo_root() / "playbooks" / "roles" / "repositories" / "templates"
PIECES = st.sampled_from(
    [
        *(
            "https://",
            "http://",
            "file:///",
            "ftp://",
            "packages.example.com",
            "[::1]",
            ":8080",
            "/",
            "./",
            "slurm",
            "noble",
        ),
        *(
            "main",
            "a@",
            "user:pw@",
            " ",
            "\n",
            "\nTrusted: yes",
            "\t",
            "#",
            '"',
            "'",
            "%20",
            "~",
            "..",
            "-",
            "Ä",
            "\0",
            "é",
        ),
    ]
)
WORDS = st.builds(
    "".join,
    st.tuples(st.sampled_from(["", "https://h/", "file:///srv/", "noble"]), st.lists(PIECES, max_size=4).map("".join)),
)
GIVEN = {"name": "site", "url": "https://h/", "suites": ("noble",), "components": ("main",), "key": "k.asc"}


def paragraph(repository: Repository) -> str:
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(loader=loader, trim_blocks=True, keep_trailing_newline=True, autoescape=False)
    one = {**repository.model_dump(), "uris": repository.url, "keyring": "/etc/apt/keyrings/site.asc"}
    return environment.get_template("repository.sources.j2").render(repositories_one=one)


@settings(max_examples=400, deadline=None)
@given(
    name=WORDS, url=WORDS, suite=WORDS, component=WORDS, field=st.sampled_from(["name", "url", "suites", "components"])
)
def test_what_is_accepted_can_be_no_other_field_and_no_second_word(
    name: str, url: str, suite: str, component: str, field: str
) -> None:
    value = {"name": name, "url": url, "suites": (suite,), "components": (component,)}[field]
    try:
        repository = Repository.model_validate({**GIVEN, field: value})
    except ValidationError:
        return
    fields = dict(line.split(": ", 1) for line in paragraph(repository).splitlines()[1:])
    assert list(fields) == ["Types", "URIs", "Suites", "Components", "Signed-By"]
    assert all(len(text.split()) == 1 for text in fields.values())
    assert (fields["URIs"], fields["Suites"], fields["Components"]) == (
        repository.url,
        repository.suites[0],
        repository.components[0],
    )
    assert "@" not in repository.url
    assert "/" not in repository.name


@pytest.mark.parametrize("end", ["\n", " ", "\nTrusted: yes", '"', "\0"])
@pytest.mark.parametrize("field", ["name", "url", "suites", "components"])
def test_nothing_stands_behind_a_value(field: str, end: str) -> None:
    value = GIVEN[field]
    ended = value + end if isinstance(value, str) else (value[0] + end,)
    with pytest.raises(ValidationError):
        Repository.model_validate({**GIVEN, field: ended})


def test_urls_of_each_scheme_are_accepted() -> None:
    for url in (
        "https://packages.example.com/slurm",
        "http://10.0.0.1:8080/a%20b/",
        "http://[fd00::1]:80/x",
        "file:///srv/apt",
    ):
        assert Repository.model_validate({**GIVEN, "url": url}).url == url


def test_a_flat_repository_has_no_components() -> None:
    flat = Repository.model_validate({**GIVEN, "suites": ("./",), "components": ()})
    assert "Components" not in paragraph(flat)


def test_the_json_schema_knows_the_form_of_a_url() -> None:
    definitions = json_schema()["$defs"]
    assert definitions["Repository"]["properties"]["url"]["pattern"].startswith("^(?:https?://")
