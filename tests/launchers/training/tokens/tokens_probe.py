"""Prepares a dataset as training does, with kept tokens, and compares it with ms-swift's own rows.

Runs in the training Python: ``tokens_probe FLAGS...``; prints one line of JSON. ``PROBE_NEVER=1``:
tokenising again is an error; ``PROBE_UNREADABLE=1``: a link in the dataset leads nowhere. Half of
the rows are held out.
"""

import hashlib
import json
import os
import sys
from typing import Any

FIELDS = ("chosen_input_ids", "chosen_labels", "rejected_input_ids", "rejected_labels", "lengths")


def main() -> None:
    from swift.pipelines.train import rlhf, sft

    kind = rlhf.SwiftRLHF if "--rlhf_type" in sys.argv else sft.SwiftSft
    pipeline: Any = kind(sys.argv[1:])
    feature: Any = sys.modules["launchers.training.tokens.cache"]
    maker: Any = sys.modules["launchers.training.tokens.make"]
    if os.environ.get("PROBE_NEVER"):
        maker.EncodePreprocessor = None
    if os.environ.get("PROBE_UNREADABLE"):
        maker.fingerprint.content = lambda path: path.with_name("nothing").read_bytes()
    ours = pipeline._prepare_dataset()
    trained, held_out = ([_text(row) for row in each] for each in ours)
    found: dict[str, object] = {
        "rows": [len(each) for each in ours],
        "held_out": hashlib.sha256("".join(held_out).encode()).hexdigest(),
        "shared": len({*trained} & {*held_out}),
    }
    if not os.environ.get("PROBE_NEVER"):
        feature.SwiftSft._get_dataset = feature._get
        feature.SwiftSft._encode_dataset = feature._encode
        feature.SwiftSft._post_process_datasets = feature._post_process
        feature.kto._get_kl_dataset = feature._kl_dataset
        theirs = pipeline._prepare_dataset()
        equal = [
            _same(one, other)
            for mine, its in zip(ours, theirs, strict=True)
            for one, other in zip(mine, its, strict=True)
        ]
        firsts = ([each[0][i] for i in range(8)] for each in (ours, theirs))
        collated = [pipeline.template.data_collator(rows) for rows in firsts]
        found |= {
            "equal": sum(equal),
            "compared": len(equal),
            "same_batch": {k: _equal(v, collated[1][k]) for k, v in collated[0].items()},
            "texts": (maker.Path(pipeline.args.output_dir) / maker.TEXTS).exists(),
        }
    else:
        before = maker._inputs(pipeline.args)
        pipeline.args.new_special_tokens = ["<new>"]
        found["new_token_counts"] = maker._inputs(pipeline.args) != before
    print("PROBE " + json.dumps(found))


def _text(row: dict[str, Any]) -> str:
    return json.dumps([row.get(field) for field in FIELDS[:4]])


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    wanted = {key: value for key, value in other.items() if value is not None}
    fields = [field for field in FIELDS if field in wanted] or ["input_ids", "labels"]
    return one == wanted and all(one.get(field) for field in fields)


def _equal(one: Any, other: Any) -> bool:
    return bool((one == other).all()) if hasattr(one, "all") else one == other


if __name__ == "__main__":
    main()
