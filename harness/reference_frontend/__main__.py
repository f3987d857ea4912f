"""``python -m harness.reference_frontend``: the program ``wavecheck-frontend``."""

from harness.reference_frontend.program import main

if __name__ == "__main__":
    main()
