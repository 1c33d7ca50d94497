"""Servers from nothing, in virtual machines: `make demo-metal`. QEMU without KVM, DHCP and HTTP as on a management node."""
