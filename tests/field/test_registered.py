"""The folders that ms-swift reads in its own way are those that ms-swift has registered."""

import json
import os
import subprocess
from pathlib import Path

from launchers.inputs.form_table import REGISTERED, SUBSETS
from tests.launchers import warm
from tests.launchers.training_environment import needs_training

REGISTER = """
import json
from swift.dataset import AutoPreprocessor, DatasetSyntax
found = {}
for (_, id), meta in DatasetSyntax._get_dataset_meta_mapping().items():
    own = not isinstance(meta.preprocess_func, AutoPreprocessor) or meta.preprocess_func.columns
    names = [subset.name for subset in meta.subsets]
    found[DatasetSyntax.get_dataset_name(id)] = [names, bool(own), "dpo" in meta.tags]
print(json.dumps(found))
"""


@needs_training
def test_the_registered_folders_are_those_of_ms_swift(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(warm.python()), "-c", REGISTER],
        cwd=tmp_path,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "MODELSCOPE_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    several = {n for n, (names, _, _) in found.items() if len(names) > 1 and "default" not in names}
    assert several <= {*SUBSETS} and "hh-rlhf" in several
    own = {name for name, (_, is_own, is_dpo) in found.items() if is_own and is_dpo}
    assert own - several == {*REGISTERED}
