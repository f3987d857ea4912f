"""The released Rust frontend ``vllm-rs`` as a black box: fetch, start, drive, read.

``fetch`` and ``cache`` get the binary; ``process`` runs it; ``http_api``, ``admin_routes`` and
``grpc_api`` talk to it; ``log_patterns`` reads its log; ``frontend`` joins them behind
``harness.targets.base.Frontend``. What one release can do is in ``capabilities``.
"""
