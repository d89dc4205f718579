"""The demo: real preference pairs, a tiny model, the main job on two local nodes, an own score."""
