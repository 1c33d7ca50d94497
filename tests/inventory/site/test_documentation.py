"""The reference pages of the site file and of the catalogue agree with the models."""

from inventory.paths import repo_root
from inventory.site.documentation import catalog_markdown, markdown


def test_docs_site_file_is_current() -> None:
    page = (repo_root() / "docs" / "site-file.md").read_text(encoding="utf-8")
    assert page == markdown(), "run: python -m inventory.site.documentation"


def test_docs_catalog_is_current_and_describes_every_key() -> None:
    page = (repo_root() / "docs" / "catalog.md").read_text(encoding="utf-8")
    assert page == catalog_markdown(), "run: python -m inventory.site.documentation"
    assert "| None |" not in page
