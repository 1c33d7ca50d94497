"""The layers of the Pulumi program, in the order in which a cluster comes up: power, network, nodes.

Each module computes the inputs of its resources from the plan (pure functions of frames) and declares them under one
component. A resource depends on the outlets of its own rack only, so that a dead PDU holds back its rack and no other.
"""
