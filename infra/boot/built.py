"""The images that were built for a site: where they lie, and what a server fetches of them."""

from pathlib import Path

from capacity.services.boot import Image, parse_image

IMAGES = "images"
"""Folder of the built images, within that of a site's outputs: ROLE/image.json each."""


def load_images(folder: Path) -> dict[str, Image]:
    """Built images by role: FOLDER/ROLE/image.json each. ImageError for one that is not valid."""
    found = (parse_image(path.read_text(encoding="utf-8"), str(path)) for path in sorted(folder.glob("*/image.json")))
    return {image.role: image for image in found}


def sent_bytes(folder: Path, image: Image) -> int:
    """Bytes that a server fetches of an image in the folder. OSError names a part that is not there."""
    return sum((folder / image.role / image.parts[name].file).stat().st_size for name in image.needed)
