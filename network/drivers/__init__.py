"""Device drivers: rack PDUs (SNMPv3), BMCs (Redfish) and anything reached over SSH.

Plain modules that Pulumi, Ansible and pytest share. Every call has a time budget and fails with a `DeviceError`
(errors.py); every write is preceded by a comparison of the device's identity with the expected one.
"""
