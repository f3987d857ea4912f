"""The pytest plugin: scenario files as tests, and fixtures for tests in Python.

``plugin`` is what pytest loads in every run on a machine that has wavecheck; it imports next to
nothing. The rest is imported once there is a scenario, an option or a fixture of ours.
"""
