"""The ``geocfm`` program: begins at once, so that even an early Ctrl-C ends it with a sentence."""

import sys


def main() -> None:
    """Load the command line, which takes a moment, and run it."""
    try:
        from geocfm.cli import main as run

        run()
    except KeyboardInterrupt:
        print("Stopped as asked; nothing had begun.")
        sys.exit(130)


if __name__ == "__main__":
    main()
