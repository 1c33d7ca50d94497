"""Network boot as it follows from the Plan: who may boot, from what, onto which disks.

    found = intents(plan, assets)        servers with the MAC that they boot from, and why others get nothing
    files(plan, found, images, key)      everything that a boot server serves, by path: DHCP, iPXE, seeds, answers of installers
    medium(plan, found, image, key)      what a medium holds that writes an image without a network

Pure: no file, no clock, no network. No file here holds a secret: nodes make their host keys themselves at their first boot.
"""

from capacity.services.boot.files import HTTP, files, medium
from capacity.services.boot.images import Image, ImageError, parse_image
from capacity.services.boot.intents import BootError, Intents, boot_server, intents

__all__ = [
    "HTTP",
    "BootError",
    "Image",
    "ImageError",
    "Intents",
    "boot_server",
    "files",
    "intents",
    "medium",
    "parse_image",
]
