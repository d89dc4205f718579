"""The values and slopes of ``metrics/first_step.py`` are those of ms-swift's own ``dpo_loss``."""

import json

import pytest

from launchers.metrics.first_step import KNOWN, Loss, known
from tests.launchers import warm
from tests.launchers.training_environment import needs_training

PROGRAM = """
import json, sys, torch
from types import SimpleNamespace
from swift.rlhf_trainers.dpo_trainer import DPOTrainer, RunningMoments
found = {}
for kind, beta, smoothing in json.loads(sys.argv[1]):
    def losses(margin):
        self = object.__new__(DPOTrainer)
        device = SimpleNamespace(device=torch.device("cpu"), gather=lambda t: t)
        vars(self).update(accelerator=device, reference_free=False, label_smoothing=smoothing,
            f_divergence_type="reverse_kl", f_divergence_params={}, loss_type=[kind], beta=beta)
        self.running = SimpleNamespace(mean=torch.zeros(()), update=lambda rewards: None)
        half = margin / beta / 2
        chosen, rejected = torch.tensor([-3.0 + half]), torch.tensor([-4.0 - half])
        chosen, rejected = chosen.double(), rejected.double()
        return float(self.dpo_loss(chosen, rejected, torch.tensor([-3.0]).double(),
                                   torch.tensor([-4.0]).double(), kind)[0])
    found[kind] = [losses(0.0), (losses(-0.01) - losses(0.01)) / 0.02]
print(json.dumps(found))
"""


@needs_training
@pytest.mark.parametrize(("beta", "smoothing"), [(0.1, 0.0), (0.5, 0.1)])
def test_values_and_slopes_of_all_types(beta: float, smoothing: float) -> None:
    asked = json.dumps([[kind, beta, smoothing] for kind in KNOWN])
    seen = json.loads(warm.printed("-c", PROGRAM, asked).splitlines()[-1])
    for kind, (value, slope) in seen.items():
        found = known(Loss(beta=beta, types=(kind,), smoothing=smoothing))
        assert found is not None
        assert found.value == pytest.approx(value, rel=1e-6), kind
        assert found.slope >= 0.999 * abs(slope), kind  # smoothing makes it less steep
        if not smoothing:
            assert found.slope == pytest.approx(abs(slope), rel=1e-2), kind
