"""Counts of ended requests and mirrored engine loads, as Prometheus text.

``prometheus_client`` is imported when somebody asks: a start must be quick.

Source: names as the real frontend shows them; it has no gauge of its own requests in flight.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.reference_frontend.watch import Watch

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What is counted. Labels are the model, the engine, and why a request ended."""

    def __init__(self, model: str, watch: Watch) -> None:
        self._model = model
        self.ended: dict[tuple[int, str], int] = {}
        self.prompt_tokens: dict[int, int] = {}
        self.new_tokens: dict[int, int] = {}
        self._watch = watch

    def served(self, rank: int, prompt: int, new: int, reason: str) -> None:
        """Count a request that ended."""
        self.ended[rank, reason] = self.ended.get((rank, reason), 0) + 1
        self.prompt_tokens[rank] = self.prompt_tokens.get(rank, 0) + prompt
        self.new_tokens[rank] = self.new_tokens.get(rank, 0) + new

    def exposition(self, ranks: Iterable[int]) -> bytes:
        """Return the text of all metrics; engines without a report show 0."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        def families() -> Iterable[Any]:
            for at, name in enumerate(("running", "waiting")):
                gauge = GaugeMetricFamily(
                    f"vllm:num_requests_{name}",
                    f"Requests that an engine reports as {name}.",
                    labels=("model_name", "engine"),
                )
                for rank in ranks:
                    load = self._watch.loads.get(rank, (0, 0))
                    gauge.add_metric((self._model, str(rank)), load[at])
                yield gauge
            for name, counts in (
                ("prompt_tokens", self.prompt_tokens),
                ("generation_tokens", self.new_tokens),
            ):
                counter = CounterMetricFamily(
                    f"vllm:{name}",
                    "Tokens of requests that ended.",
                    labels=("model_name", "engine"),
                )
                for rank in ranks:
                    counter.add_metric((self._model, str(rank)), counts.get(rank, 0))
                yield counter
            ended = CounterMetricFamily(
                "vllm:request_success",
                "Requests that ended, by reason.",
                labels=("model_name", "engine", "finished_reason"),
            )
            for (rank, reason), count in sorted(self.ended.items()):
                ended.add_metric((self._model, str(rank), reason), count)
            yield ended

        class Collector:
            """Hands the families over."""

            def collect(self) -> Iterable[Any]:
                """Return them."""
                return families()

        registry = CollectorRegistry(auto_describe=False)
        registry.register(Collector())
        text: bytes = generate_latest(registry)
        return text
