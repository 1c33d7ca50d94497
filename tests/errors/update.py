"""``python -m tests.errors.update``: write the expected messages anew. Review the diff before committing it."""

from tests.errors.cases import FOLDER, case_names, message


def main() -> None:
    """Write one .txt per case and say which changed."""
    for name in case_names():
        path, text = FOLDER / f"{name}.txt", message(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"changed: {path.name}")


if __name__ == "__main__":
    main()
