"""The reference page of the site file agrees with the models."""

from inventory.paths import repo_root
from inventory.site.documentation import markdown


def test_docs_site_file_is_current() -> None:
    page = (repo_root() / "docs" / "site-file.md").read_text(encoding="utf-8")
    assert page == markdown(), "run: python -m inventory.site.documentation"
