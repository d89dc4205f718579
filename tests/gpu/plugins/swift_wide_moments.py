"""Loaded into ms-swift's Megatron trainer: saves moments in fp32, as without ``narrow_moments``."""

from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

from launchers.training.optimizer import narrow_moments

DistributedOptimizer.sharded_state_dict = narrow_moments._sharded
DistributedOptimizer.load_state_dict = narrow_moments._load
DistributedOptimizer._set_main_param_and_optimizer_states = narrow_moments._set
