"""Code that runs inside ms-swift's training processes; ``swift_plugin.py`` is its entry point.

A feature is a module with a function ``install`` that patches ms-swift, or with a class of trainer
callbacks; importing it changes nothing. ``flags/features.py`` lists the features. May import every
module but those of the layers ``stages`` and ``run``.
"""
