"""The dataset plugin of the cloned repository: a real team's ``plugins/preferences.py``."""

from typing import Any

from swift.dataset import DatasetMeta, RowPreprocessor, register_dataset


class Preferences(RowPreprocessor):  # type: ignore[misc]
    """A row as ms-swift's DPO wants it."""

    def preprocess(self, row: dict[str, Any]) -> dict[str, Any]:
        """prompt, chosen, rejected -> messages and rejected_response."""
        return {
            "messages": [
                {"role": "user", "content": row["prompt"]},
                {"role": "assistant", "content": row["chosen"]},
            ],
            "rejected_response": row["rejected"],
        }


for name in ("preferences-00000.parquet", "preferences-00001.parquet"):
    register_dataset(DatasetMeta(dataset_path=name, preprocess_func=Preferences()))
