"""Deal packs to data-parallel ranks, report how full they are, and keep their sizes equal."""
