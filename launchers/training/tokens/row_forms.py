"""Read the forms of pairs of ``inputs/form_table.py`` where ms-swift's own readers find no pairs.

Only ``AutoPreprocessor`` is replaced: a dataset that ms-swift has registered, or a user's plugin,
has a reader of its own. The launcher leaves the feature out with ``recipe.args.columns``.
"""

from typing import Any

from datasets import Dataset
from swift.dataset import AutoPreprocessor, MessagesPreprocessor
from swift.utils import get_logger

from launchers.inputs import row_forms
from launchers.inputs.row_forms import LOOKED_AT, Form

_call = AutoPreprocessor.__call__
_logger = get_logger()


class FormPreprocessor(MessagesPreprocessor):  # type: ignore[misc]
    """ms-swift's mapping of conversations, such as of calls of tools, behind a built-in reader."""

    def __init__(self, form: Form) -> None:
        """Take the form of the dataset's rows."""
        super().__init__()
        self.form = form

    def preprocess(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the row in ms-swift's own form; ValueError: the row is dropped."""
        kept = {name: row[name] for name in row if name in self.standard_keys}
        made: dict[str, Any] = super().preprocess({**kept, **self.form.read(row)})
        return made


def call(self: Any, dataset: Any, **kwargs: Any) -> Any:
    """Read a dataset with the form of its first rows, or as upstream does."""
    if not isinstance(dataset, Dataset) or self.columns:
        return _call(self, dataset, **kwargs)
    form = row_forms.find(dataset.select(range(min(LOOKED_AT, len(dataset)))))
    if form is None:
        return _call(self, dataset, **kwargs)
    _logger.info("rows have a built-in reader: %s", form.name)
    return FormPreprocessor(form)(dataset, **{**kwargs, "enable_auto_mapping": False})


def install() -> None:
    """Replace upstream's choice of a reader."""
    AutoPreprocessor.__call__ = call
