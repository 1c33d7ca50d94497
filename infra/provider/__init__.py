"""Native Pulumi provider `bringup`: a thin skin that maps typed resources onto the device drivers.

Resources (docs/decisions/0050-pulumi-provider.md says why they are cut this way):

- `bringup:power:RackOutlets`     the outlets of every PDU of one rack
- `bringup:network:SwitchConfig`  the running configuration of one switch
- `bringup:nodes:Servers`         power, boot, BIOS, accounts and time of every server of one rack
- `bringup:nodes:Installed`       the image of every server of one rack, written over the network and read back
- `bringup:network:SubnetManager` the InfiniBand subnet manager of one host

Inputs are references and desired state; secrets are resolved from the site when a device is contacted and never leave
the provider.
"""
