"""The InfiniBand compute fabric: what its subnet managers are to be told, what they and the fabric answer, and the
difference from the plan.

    subnet.py    plan -> the files of each subnet manager (pure)
    wire.py      how switches, ports and adapters call themselves in discovery (pure)
    parse.py     output of infiniband-diags -> plain data (pure)
    compare.py   plan and discovery -> findings (pure)
    manager.py   a host that runs a subnet manager, over SSH; on_host.py is the program that runs there
"""
