"""``python3 -m tests.gpu.reference``."""

from tests.gpu.reference.command import main

if __name__ == "__main__":
    main()
