"""Images for network boot: built here, written by an initramfs that is built here too."""
