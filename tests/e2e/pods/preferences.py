"""The dataset plugin of the cloned repository, ``plugins/preferences.py``."""

from typing import Any

from swift.dataset import DatasetMeta, RowPreprocessor, register_dataset


class Preferences(RowPreprocessor):  # type: ignore[misc]
    """Conversion of a row to ms-swift's DPO format."""

    def preprocess(self, row: dict[str, Any]) -> dict[str, Any]:
        """Convert prompt, chosen and rejected to messages and rejected_response."""
        return {
            "messages": [
                {"role": "user", "content": row["prompt"]},
                {"role": "assistant", "content": row["chosen"]},
            ],
            "rejected_response": row["rejected"],
        }


for name in ("preferences-00000.parquet", "preferences-00001.parquet"):
    register_dataset(DatasetMeta(dataset_path=name, preprocess_func=Preferences()))
