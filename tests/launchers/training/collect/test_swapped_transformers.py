"""With chosen and rejected swapped, every metric of ms-swift's transformers trainer follows."""

import json

import pytest

from tests.launchers import warm
from tests.launchers.training_environment import needs_training

PROGRAM = """
import json, torch
from types import SimpleNamespace
from swift.rlhf_trainers.dpo_trainer import DPOTrainer
chance = torch.Generator().manual_seed(2)
logps, ref = (-50 * torch.rand(2, 7, generator=chance) for _ in range(2))
logits = torch.rand(2, generator=chance)
def reported(first, second):
    self = object.__new__(DPOTrainer)
    accelerator = SimpleNamespace(device=torch.device("cpu"), gather_for_metrics=lambda t: t)
    vars(self).update(accelerator=accelerator, reference_free=False, label_smoothing=0.0,
        f_divergence_type="reverse_kl", f_divergence_params={}, loss_type=["sigmoid"], beta=0.1,
        args=SimpleNamespace(rpo_alpha=None), use_weighting=False, aux_loss_enabled=False,
        concatenated_forward=lambda *_: {
            "chosen_logps": logps[first], "rejected_logps": logps[second],
            "mean_chosen_logits": logits[first], "mean_rejected_logits": logits[second]})
    batch = {"ref_chosen_logps": ref[first], "ref_rejected_logps": ref[second]}
    loss, metrics = self.get_batch_loss_metrics(None, batch)
    return {"loss": loss.item(), **metrics}
print(json.dumps([reported(0, 1), reported(1, 0)]))
"""


@needs_training
def test_every_metric_follows_a_swap() -> None:
    before, after = json.loads(warm.printed("-c", PROGRAM).splitlines()[-1])
    assert 0 < before["rewards/accuracies"] < 1 and before["rewards/accuracies"] != 0.5
    assert abs(before["rewards/margins"]) > 1e-2
    expected = {
        "loss": before["loss"] + before["rewards/margins"],  # -log s(-m) = -log s(m) + m
        "rewards/accuracies": 1 - before["rewards/accuracies"],
        "rewards/margins": -before["rewards/margins"],
    }
    for kind in ("rewards", "logps", "logits"):
        for one, other in (("chosen", "rejected"), ("rejected", "chosen")):
            expected[f"{kind}/{one}"] = before[f"{kind}/{other}"]
    assert after == pytest.approx(expected, rel=1e-5)
