"""The processes of a standby: they import what training imports, and wait for an attempt."""
