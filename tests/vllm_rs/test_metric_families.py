"""The table of metrics is what the binaries serve."""

from __future__ import annotations

import pytest
from packaging.version import Version

from client.aio import with_deadline
from client.protocol.profiles import NEWEST, RELEASES
from harness.scenario.model import CallStep
from harness.targets.vllm_rs.metric_families import FAMILIES, LABEL_VALUES, family_of
from harness.targets.vllm_rs.metrics import sample_name
from mock_engines.behaviours.model import Action

pytestmark = [pytest.mark.vllm_rs, pytest.mark.slow]
SURFACES = ("http", "http-stream", "chat", "grpc-stream")


def nothing(*_):
    pass


@pytest.mark.parametrize(
    "release", [RELEASES[0], "0.25.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", NEWEST]
)
def test_families_labels_and_values_are_those_of_the_table(play, release):
    async def story(lab):
        for surface in SURFACES:
            await with_deadline(
                lab.frontend.generate(CallStep(id=surface, surface=surface), nothing), 10
            )
        await lab.cluster.act(0, [Action.model_validate({"stats": {"running": 1, "waiting": 2}})])
        await lab.fence()
        return await lab.frontend.metrics()

    metrics = play(release, story)
    known = {f.name for f in FAMILIES.values() if Version(f.since) <= Version(release)}
    assert metrics.families == known
    for sample in metrics.samples:
        family = family_of(sample)
        assert family is not None, sample
        name = sample.partition("{")[0]
        labels = dict(part.split("=") for part in sample[len(name) + 1 : -1].split(",") if part)
        assert sample == sample_name(name, {k: v.strip('"') for k, v in labels.items()})
        if (wanted := family.labels_of(name)) is not None:
            assert tuple(labels) == wanted, sample
        for label, value in labels.items():
            values = LABEL_VALUES.get((family.name, label))
            assert values is None or value.strip('"') in values, sample
