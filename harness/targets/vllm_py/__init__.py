"""Target ``vllm-py``: classes of vLLM's Python half, executed from a release's own sources.

Nothing of vLLM is part of this package: sources come from a wheel at run time, are compared with
recorded checksums, and are executed in child processes with stubs for heavy imports.
"""
