"""The arithmetic of DPO with a stored reference, without synchronising with the GPU."""

from typing import Any

import torch


def sums(losses: Any, targets: Any, bounds: Any) -> Any:
    """Return each sequence's summed log-probability in nats, float32 [sequences].

    One masked sum over all sequences: a loop over ``bounds`` would synchronise with the GPU at
    every slice. It adds in float64, so that neither order nor padding changes the result.

    Args:
        losses: loss of each token, ``[rows, length]``, as the model returns them for ``targets``.
        targets: labels of the same shape; -100 where a token does not count.
        bounds: for packed sequences, the start of each and the end of the last, on the GPU; None
            for one sequence a row.
    """
    counted = torch.where(targets != -100, -losses, torch.zeros_like(losses)).double()
    if bounds is None:
        return counted.sum(-1).float()
    place = torch.arange(counted.shape[-1], device=counted.device)
    inside = (place >= bounds[:-1, None]) & (place < bounds[1:, None])
    return torch.where(inside, counted, torch.zeros_like(counted)).sum(-1).float()


def chosen_nll(losses: Any, targets: Any, bounds: Any) -> Any:
    """Return the mean loss over the tokens of the chosen sequences, weighted by ``rpo_alpha``.

    The chosen ones are the first half of the sequences (ms-swift 4.4.1
    ``swift/megatron/trainers/dpo_trainer.py``, ``swift/template/base.py:_rlhf_data_collator``).
    """
    counted = targets != -100
    if bounds is None:
        rows = torch.arange(targets.shape[0], device=targets.device)
        counted = counted & (rows < targets.shape[0] // 2)[:, None]
    else:
        place = torch.arange(targets.shape[-1], device=targets.device)
        counted = counted & (place < bounds[(bounds.shape[0] - 1) // 2])
    return torch.where(counted, losses, torch.zeros_like(losses)).sum() / counted.sum()


def bounds_of(packed_seq_params: Any) -> Any:
    """Return where the packed sequences begin and end; None for one sequence a row.

    ``cu_seqlens_q`` may have more entries than sequences: the padding of a pack begins at 0 again.
    """
    if packed_seq_params is None:
        return None
    return packed_seq_params.cu_seqlens_q[: packed_seq_params.seq_lens.shape[0] + 1]
