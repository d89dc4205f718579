"""The iterator that counts the tokens a trainer reads."""

import json
from pathlib import Path

import pytest

from launchers.training.collect.reading import Tally, counted
from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import needs_training


def test_the_iterator_counts_what_is_read_and_hands_it_on() -> None:
    tally, batch = Tally(), {"seq_lens": [3, 4], "input_ids": object()}
    first, second = counted([iter([batch]), iter([batch])], tally)
    assert next(first) is batch and next(second) is batch
    assert (tally.tokens, tally.squares, tally.sequences) == (7, 25, 2)
    assert tally.seconds > 0
    with pytest.raises(StopIteration):
        next(first)
    tally.clear()
    assert (tally.tokens, tally.seconds) == (0, 0.0)
    next(counted(iter([{"input_ids": 1}]), tally))  # another trainer's batch
    next(counted(iter([[batch]]), tally))
    assert tally.tokens == 0


COLLATED = """
import json
from types import SimpleNamespace
from swift.template.base import Template
from launchers.training.collect.reading import Tally, counted
made = lambda rows, padding_to: {"seq_lens": [len(row["input_ids"]) for row in rows]}
fetch = Template._fetch_inputs_startswith
of = SimpleNamespace(_data_collator=made, _fetch_inputs_startswith=fetch)
rows = [{"chosen_input_ids": [1] * 3, "rejected_input_ids": [1] * 9, "label": n} for n in (0, 1)]
tally = Tally()
next(counted(iter([Template._kto_data_collator(of, rows)]), tally))
print(json.dumps([tally.tokens, tally.squares, tally.sequences]))
"""


@needs_training
def test_ms_swifts_batch_of_kto_is_counted_without_its_kl_rows(tmp_path: Path) -> None:
    found = fake_upstream.run(tmp_path, COLLATED).splitlines()[-1]
    assert json.loads(found) == [6, 18, 2]
