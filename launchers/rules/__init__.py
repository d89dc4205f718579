"""Relations between flags that Megatron, ms-swift or this launcher would refuse. Pure.

May import ``flags``, ``plan`` and below.
"""
