"""The demo's dataset plugin: it is committed to the demo's code repository, which the run clones.

ms-swift finds the dataset by the last part of its path (swift/dataset/dataset_syntax.py), so the
name is enough, wherever the download stage puts the file.
"""

from typing import Any

from swift.dataset import DatasetMeta, RowPreprocessor, register_dataset


class DocstringPairs(RowPreprocessor):  # type: ignore[misc]
    """A row of pairs.jsonl as ms-swift's DPO wants it."""

    def preprocess(self, row: dict[str, Any]) -> dict[str, Any]:
        """Convert prompt, chosen and rejected to messages and rejected_response."""
        return {
            "messages": [
                {"role": "user", "content": row["prompt"]},
                {"role": "assistant", "content": row["chosen"]},
            ],
            "rejected_response": row["rejected"],
        }


register_dataset(DatasetMeta(dataset_path="pairs.jsonl", preprocess_func=DocstringPairs()))
