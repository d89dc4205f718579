"""Prepares a dataset without the cache of tokens and draws all of its rows, as training does.

Runs in the training Python: ``running_probe FLAGS...``; ``PROBE_MULTIMODAL=1``: the model is taken
for one that reads images.
"""

import os
import sys
from typing import Any

from torch.utils.data import DataLoader


def main() -> None:
    from swift.pipelines.train.rlhf import SwiftRLHF

    pipeline: Any = SwiftRLHF(sys.argv[1:])
    if os.environ.get("PROBE_MULTIMODAL"):
        pipeline.args.model_meta.is_multimodal = True
    rows, _ = pipeline._prepare_dataset()
    drawn = DataLoader(rows, batch_size=2, num_workers=1, collate_fn=list)
    print(f"DRAWN {sum(map(len, drawn))}")


if __name__ == "__main__":
    main()
