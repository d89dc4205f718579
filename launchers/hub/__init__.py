"""Models and datasets from hubs: list a repository, fetch and verify its files.

``fetch`` is the entry; ``client`` is the interface of a hub. Imports ``storage`` and below.
"""
