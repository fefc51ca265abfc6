"""`python -m twofold` is `twofold`."""

from twofold.cli import main

main()
