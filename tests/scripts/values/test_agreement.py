"""The judge refuses what plain JSON schema refuses, in parts of pods drawn from Kubernetes."""

import random

from jsonschema import Draft7Validator

from scripts.values import schema
from tests.api.compare import OPENAPI
from tests.api.parts import Parts
from tests.api.sections import SECTIONS
from tests.chart.helm import merged

COUNT = 600


def test_the_judge_and_the_library_refuse_the_same_parts_of_pods() -> None:
    plain = Draft7Validator(schema.schema())
    names = list(SECTIONS)
    refused = 0
    for seed in range(COUNT):
        parts = Parts(chance=random.Random(seed), types=OPENAPI)
        values = merged(SECTIONS[names[seed % len(names)]].draw(parts))
        found = schema.mistakes(values)
        assert bool(found) != plain.is_valid(values), (values, found)
        refused += bool(found)
    assert 0.2 < refused / COUNT < 0.8
