"""``python -m harness.docs``."""

from harness.docs.pages import main

main()
