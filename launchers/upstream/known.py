"""The sources of upstream's functions that our patches were written for, by their first digits.

Made from ``digests.json`` by ``python3 -m launchers patches --write``; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping

DIGITS = 16
Read = Mapping[str, Mapping[str, Mapping[str, str]]]
"""By module and qualified name: the releases that were read, by the first ``DIGITS`` hexadecimal
digits of the SHA-256 of the function's source; an empty digest stands for releases that do not have
the function. Distributions are the keys of ``SOURCES``."""

# fmt: off
SOURCES: Mapping[str, Read] = {
 "ms-swift": {
  "swift.dataloader.shard": {
   "DataLoaderShard.set_epoch": {
    "87e3c86944e1e8e0": "4.4.1, 4.4.2, 4.5.3",
    "60feb1e474e67a07": "4.6.0"
   }
  },
  "swift.dataset.packing": {
   "PackingDataset.__getitem__": {
    "ee71a185c1d1fd51": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "PackingDataset.__init__": {
    "22c45c840670b905": "4.4.1, 4.4.2",
    "c03a4db2dd7010a1": "4.5.3, 4.6.0"
   },
   "PackingDataset.create_packed_idx": {
    "938eecefe86f6325": "4.4.1, 4.4.2",
    "cb3c86c965f50da8": "4.5.3, 4.6.0"
   }
  },
  "swift.dataset.preprocessor.core": {
   "AutoPreprocessor.__call__": {
    "9d61d4147edf9791": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  },
  "swift.megatron.arguments.megatron_args": {
   "MegatronArguments.init_iters": {
    "4622d8a74019d63d": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  },
  "swift.megatron.callbacks.default_flow": {
   "DefaultFlowCallback": {
    "452add42fe18ff89": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "DefaultFlowCallback.on_step_end": {
    "bbfd740907a3a47f": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  },
  "swift.megatron.init": {
   "_patch_torch_FileSystemReader": {
    "658a78d9f031ff20": "4.4.1, 4.4.2",
    "0ac105a7ad1fae1a": "4.5.3, 4.6.0"
   }
  },
  "swift.megatron.pipelines.train.sft": {
   "MegatronSft.__init__": {
    "bcef98f8fbe8db77": "4.4.1",
    "fd56cf71676cef49": "4.4.2",
    "9a38bd9bc6707e55": "4.5.3, 4.6.0"
   },
   "MegatronSft._set_seed": {
    "d94dc98fc8b6d81f": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "MegatronSft.run": {
    "10672ef2d21496be": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  },
  "swift.megatron.trainers.base": {
   "BaseMegatronTrainer.__init__": {
    "16d6a7a1d0a0329a": "4.4.1, 4.4.2",
    "5abc8430f0fb53c1": "4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer._aggregated_metrics": {
    "2af6076be65bc6ae": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer._all_reduce_metric": {
    "ae520ee6bb7efd7f": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer._create_dataloader": {
    "aa49ce548db5b76f": "4.4.1, 4.4.2",
    "bf1200a3cdfa6b32": "4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer._determine_best_metric": {
    "a39bcb05479d28bc": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer._get_data_collator": {
    "42af75dba29ebe03": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer._load_checkpoint": {
    "38d449a6cb92cc38": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer._log_callback": {
    "63a4b9492414d2e7": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer._prepare_batch": {
    "046d5faa843946b2": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer._prepare_data_iterator": {
    "b914d060848a3ff8": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer._prepare_dataloader": {
    "05f1b28d8f52f48b": "4.4.1, 4.4.2, 4.5.3",
    "59a9e3b179c8da1d": "4.6.0"
   },
   "BaseMegatronTrainer._prepare_peft_model": {
    "02d50a3537c5db51": "4.4.1, 4.4.2",
    "3e3c28cd9e4fb009": "4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.cyclic_iter": {
    "9d7b45d0a9523df7": "4.4.1, 4.4.2",
    "a2d09329868ad6e3": "4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.evaluate": {
    "059143b861fe6425": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.get_batch": {
    "ed052e5328217b80": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.get_optimizer_and_scheduler": {
    "05aa52ebba1fac35": "4.4.1, 4.4.2",
    "57e7c99a8d61a3c7": "4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.merge_lora_adapters": {
    "24599db865d0960f": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.prepare_model": {
    "5e69329368ee3e67": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.run_train_step": {
    "4c177b1e5f20df4a": "4.4.1, 4.4.2",
    "7e68da9174f58796": "4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.save_checkpoint": {
    "2986cdc2515645d7": "4.4.1, 4.4.2",
    "beebc99b3dc81ea8": "4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.setup_model_training": {
    "4682d9c98780876c": "4.4.1, 4.4.2",
    "929a1971a8be10db": "4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.setup_training": {
    "d51a27bc65c54bf0": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.train_step": {
    "fe05dddd7c98d5cc": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "BaseMegatronTrainer.unmerge_lora_adapters": {
    "b0aa3c6eea47a865": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  },
  "swift.megatron.trainers.batch_sampler": {
   "MegatronPretrainingRandomSampler": {
    "2b16669d2ce270b6": "4.4.1, 4.4.2, 4.5.3",
    "46c7a9ba309b8bc3": "4.6.0"
   },
   "MegatronPretrainingSampler": {
    "102c14222d1667bd": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  },
  "swift.megatron.trainers.dpo_trainer": {
   "DummyDPOTrainer.__init__": {
    "b9996e16f27311bd": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "MegatronDPOTrainer.__init__": {
    "78a1cbd1d8074e52": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "MegatronDPOTrainer.forward_step": {
    "b8902c53beba0cf8": "4.4.1, 4.4.2, 4.5.3",
    "66f0d8f0ae1de04b": "4.6.0"
   },
   "MegatronDPOTrainer.loss_func": {
    "3a8b6f5ec9c92088": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  },
  "swift.megatron.trainers.rlhf_mixin": {
   "MegatronRLHFTrainer._get_data_collator": {
    "a91091da5953bcd0": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "MegatronRLHFTrainer._load_checkpoint": {
    "cc4bba8fa79016c0": "4.4.1, 4.4.2",
    "abaa1ae7d2b0a7a5": "4.5.3, 4.6.0"
   },
   "MegatronRLHFTrainer.get_logps": {
    "d21952cfe5bb6a06": "4.4.1, 4.4.2, 4.5.3",
    "399a79f3d4620746": "4.6.0"
   },
   "MegatronRLHFTrainer.prepare_model": {
    "149271e24cd49c03": "4.4.1, 4.4.2",
    "3097a19f900f7fad": "4.5.3, 4.6.0"
   }
  },
  "swift.megatron.trainers.utils": {
   "TrainerState": {
    "3a09c9cf4d8902a4": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "get_batch_on_this_pp_rank": {
    "3402c1f10317497f": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "prepare_batch": {
    "1a2fa736edebf1dd": "4.4.1, 4.4.2",
    "f6c20406e501f0c4": "4.5.3, 4.6.0"
   }
  },
  "swift.megatron.utils.megatron_lm_utils": {
   "get_batch_on_this_cp_rank": {
    "281a335cea3e46ae": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "get_sharded_sd_metadata": {
    "9727221fa58ce503": "4.4.1, 4.4.2",
    "56ee5c4a94aebd6a": "4.5.3, 4.6.0"
   },
   "save_mcore_checkpoint": {
    "9c71dae097761257": "4.4.1",
    "61125332c0ea3150": "4.4.2",
    "1c24ef57e16a2a4d": "4.5.3",
    "b1f14c4cd5af43be": "4.6.0"
   },
   "wrap_model": {
    "e19aa52928e6aae2": "4.4.1, 4.4.2",
    "e2439cafe157ac8a": "4.5.3, 4.6.0"
   }
  },
  "swift.megatron.utils.utils": {
   "get_packed_seq_params": {
    "a5a4f6b83e9d6bed": "4.4.1, 4.4.2",
    "67a484b5bce920cc": "4.5.3, 4.6.0"
   },
   "get_padding_to": {
    "7d5ac492b3638985": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  },
  "swift.pipelines.base": {
   "SwiftPipeline.__init__": {
    "70e7c1a01fda901d": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "SwiftPipeline._set_seed": {
    "e8019c1c9df8acd7": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  },
  "swift.pipelines.train.kto": {
   "_get_kl_dataset": {
    "e385aedbf94f7382": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "prepare_kto_dataset": {
    "7be22f91b4f62da3": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  },
  "swift.pipelines.train.sft": {
   "SwiftSft.__init__": {
    "4c19b33726559097": "4.4.1, 4.4.2",
    "fff1c71a251eba25": "4.5.3, 4.6.0"
   },
   "SwiftSft._encode_dataset": {
    "404586e78c1ad673": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "SwiftSft._get_dataset": {
    "34072c6917ca9f32": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "SwiftSft._post_process_datasets": {
    "5e5a9090480f7d65": "4.4.1, 4.4.2",
    "4ffd0622edebf747": "4.5.3, 4.6.0"
   },
   "SwiftSft._prepare_dataset": {
    "996019bae120addc": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "SwiftSft._prepare_model_tokenizer": {
    "1c249c6e4eb1199c": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "SwiftSft._prepare_template": {
    "1dbf44a1a0f964ed": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "SwiftSft.run": {
    "179fae4d45af175a": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  },
  "swift.rlhf_trainers.dpo_trainer": {
   "DPOTrainer.compute_loss": {
    "cfaefb60b37e5da3": "4.4.1, 4.4.2, 4.5.3",
    "ce0f4fdc2d7a13b2": "4.6.0"
   },
   "DPOTrainer.concatenated_forward": {
    "30b81becc58c4bf1": "4.4.1, 4.4.2",
    "68f67864aaa653fa": "4.5.3",
    "c2a0011554fcb631": "4.6.0"
   },
   "DPOTrainer.dpo_loss": {
    "1aaa4687df01d236": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   },
   "DPOTrainer.get_batch_loss_metrics": {
    "503b4dfeb8a83413": "4.4.1, 4.4.2",
    "b9c0206a1d92653a": "4.5.3",
    "e7a23b99175f80a9": "4.6.0"
   },
   "DPOTrainer.get_batch_samples": {
    "": "4.4.1, 4.4.2, 4.5.3",
    "f959022801925c5f": "4.6.0"
   }
  },
  "swift.template.base": {
   "Template._rlhf_data_collator": {
    "f9cb38a491d9baff": "4.4.1, 4.4.2",
    "464a27b8f60921a0": "4.5.3, 4.6.0"
   },
   "Template.packing_row": {
    "2935381dd18cafbc": "4.4.1, 4.4.2, 4.5.3",
    "81aa584cf4d3099d": "4.6.0"
   }
  },
  "swift.trainers.mixin": {
   "DataLoaderMixin.get_train_dataloader": {
    "5d2aeed447b35058": "4.4.1, 4.4.2",
    "69c75ddffcb4bded": "4.5.3",
    "170393e0d90b6c27": "4.6.0"
   },
   "SwiftMixin._fix_grad_norm_nan": {
    "1774dcf307005673": "4.4.1, 4.4.2",
    "d509d868b92b40f5": "4.5.3, 4.6.0"
   },
   "SwiftMixin._patch_skip_first_batches": {
    "e3d4414b91e05af7": "4.4.1, 4.4.2",
    "3ad9e07032f7ca24": "4.5.3, 4.6.0"
   },
   "SwiftMixin._save_checkpoint": {
    "d2154ee05922aeca": "4.4.1, 4.4.2",
    "07e15ad4260b6aa1": "4.5.3, 4.6.0"
   }
  },
  "swift.utils.transformers_utils": {
   "get_packed_seq_params": {
    "8f4a854d24fcdba3": "4.4.1, 4.4.2, 4.5.3, 4.6.0"
   }
  }
 },
 "mcore-bridge": {
  "mcore_bridge.bridge.gpt_bridge": {
   "GPTBridge._set_mlp_state": {
    "b40091930b635c00": "1.6.0 to 1.6.5"
   },
   "GPTBridge.export_weights": {
    "3ea0e658c553a866": "1.6.0 to 1.6.4",
    "c5ab2c8c31296afe": "1.6.5"
   },
   "GPTBridge.load_weights": {
    "8f407d3c46596ec6": "1.6.0, 1.6.1",
    "8b09ded1be8a3f1c": "1.6.2 to 1.6.5"
   },
   "GPTBridge.save_weights": {
    "83a4ba6478e6ca1b": "1.6.0, 1.6.1",
    "33a82a4f57fbb0e1": "1.6.2 to 1.6.5"
   }
  },
  "mcore_bridge.config.model_config": {
   "ModelConfig.__post_init__": {
    "f7f768b1d1570c3b": "1.6.0 to 1.6.4",
    "523aa781a3fcc85b": "1.6.5"
   }
  },
  "mcore_bridge.model.gpt_model": {
   "GPTModel._get_rotary_pos_emb": {
    "85a6eaf0d374b772": "1.6.0, 1.6.1, 1.6.2, 1.6.3, 1.6.4",
    "9435e91157068360": "1.6.5"
   },
   "GPTModel._postprocess": {
    "97da72f4a4883913": "1.6.0 to 1.6.4",
    "40c4bcefadc827b5": "1.6.5"
   },
   "GPTModel.forward": {
    "75cf0e1fd24e048a": "1.6.0, 1.6.1, 1.6.2",
    "4b77b6bad561c8b4": "1.6.5"
   }
  },
  "mcore_bridge.model.modules.topk_router": {
   "TopKRouter._apply_expert_bias": {
    "955dd3d96cac9c1a": "1.6.0 to 1.6.4",
    "c35f6a406d9fd325": "1.6.5"
   }
  },
  "mcore_bridge.model.modules.transformer_layer": {
   "TransformerLayer.forward": {
    "a77ea8b63176d09b": "1.6.0 to 1.6.5"
   }
  },
  "mcore_bridge.patcher": {
   "_patch_mrope": {
    "364f6aa9f9eaa166": "1.6.0, 1.6.1",
    "220bdc469980649f": "1.6.2, 1.6.3, 1.6.4, 1.6.5"
   }
  },
  "mcore_bridge.tuners.lora": {
   "LoraParallelLinear.forward": {
    "33936a670af5508b": "1.6.0 to 1.6.2",
    "aba90c29264c3435": "1.6.3, 1.6.4",
    "8c2bd3ccb404b795": "1.6.5"
   },
   "LoraParallelLinear.get_delta_weights": {
    "bf07f2346543c357": "1.6.0 to 1.6.5"
   },
   "LoraParallelLinear.sharded_state_dict": {
    "615eb51ae0ef4472": "1.6.0 to 1.6.5"
   },
   "LoraParallelLinear.update_layer": {
    "8b2f419daafa9505": "1.6.0 to 1.6.2",
    "fa81e590c2a586a2": "1.6.3, 1.6.4",
    "dbdafda8ece60966": "1.6.5"
   }
  },
  "mcore_bridge.utils.safetensors": {
   "SafetensorLazyLoader": {
    "8d7dc8412500e222": "1.6.0 to 1.6.4",
    "418ea5e090af8b6d": "1.6.5"
   },
   "StreamingSafetensorSaver": {
    "0b45ae13ad887893": "1.6.0 to 1.6.5"
   }
  }
 },
 "megatron-core": {
  "megatron.core.dist_checkpointing.serialization": {
   "save": {
    "1d1ad67cbb715bd6": "0.18.0, 0.18.1, 0.18.2",
    "e9626ecdf679a001": "0.19.0 to 0.19.2"
   }
  },
  "megatron.core.dist_checkpointing.strategies.filesystem_async": {
   "FileSystemWriterAsync.finish": {
    "b1a75cf4f8def766": "0.18.0 to 0.19.2"
   },
   "FileSystemWriterAsync.prepare_write_data": {
    "60f430ed82388150": "0.18.0 to 0.19.2"
   },
   "get_write_results_queue": {
    "e395fb0e86a062e2": "0.18.0 to 0.19.2"
   }
  },
  "megatron.core.dist_checkpointing.strategies.fully_parallel": {
   "FullyParallelSaveStrategyWrapper.save": {
    "307a9e782f08086c": "0.18.0 to 0.19.2"
   }
  },
  "megatron.core.dist_checkpointing.strategies.torch": {
   "TorchDistSaveShardedStrategy._get_save_and_finalize_callbacks": {
    "2359be0cf74e9d31": "0.18.0 to 0.19.2"
   },
   "TorchDistSaveShardedStrategy.async_save": {
    "76a4d55fe07edb88": "0.18.0 to 0.19.2"
   },
   "TorchDistSaveShardedStrategy.save": {
    "e3bb2e822ccbabc8": "0.18.0 to 0.19.2"
   }
  },
  "megatron.core.distributed.distributed_data_parallel": {
   "DistributedDataParallel._make_backward_post_hook": {
    "7cb975df73c5c859": "0.18.0, 0.18.1, 0.18.2",
    "8b6696c987250c15": "0.19.0 to 0.19.2"
   }
  },
  "megatron.core.distributed.param_and_grad_buffer": {
   "_ParamAndGradBucketGroup.check_grads": {
    "94e99add61f34256": "0.18.0 to 0.19.2"
   },
   "_ParamAndGradBucketGroup.register_grad_ready": {
    "b0544c1dd3129007": "0.18.0 to 0.19.2"
   },
   "_ParamAndGradBucketGroup.start_grad_sync": {
    "163db4ed5c59a61d": "0.18.0, 0.18.1, 0.18.2",
    "62f8f12d579769ef": "0.19.0 to 0.19.2"
   }
  },
  "megatron.core.extensions.transformer_engine": {
   "TEDotProductAttention.forward": {
    "52433b62e8a3fda4": "0.18.0, 0.18.1, 0.18.2",
    "83470b9732d24e90": "0.19.0, 0.19.2"
   },
   "TEGroupedLinear._sharded_state_dict_grouped": {
    "cbd7a1de87b3b069": "0.18.0, 0.18.1, 0.18.2",
    "77510958bcfa2582": "0.19.0 to 0.19.2"
   },
   "TEGroupedLinear.forward": {
    "8c81986769a44b61": "0.18.0 to 0.19.2"
   }
  },
  "megatron.core.optimizer.clip_grads": {
   "clip_grad_by_total_norm_fp32": {
    "cf07b488fb76a8ae": "0.18.0 to 0.19.2"
   },
   "get_grad_norm_fp32": {
    "40c55d8ae4641b40": "0.18.0, 0.18.1, 0.18.2",
    "810944e99b1e435d": "0.19.0 to 0.19.2"
   }
  },
  "megatron.core.optimizer.distrib_optimizer": {
   "DistributedOptimizer._compute_per_buffer_param_layout": {
    "57475f72074773fb": "0.18.0, 0.18.1, 0.18.2",
    "68d85cf9f1fefde2": "0.19.0 to 0.19.2"
   },
   "DistributedOptimizer._get_main_param_and_optimizer_states": {
    "ea8b605c28eb3e20": "0.18.0, 0.18.1, 0.18.2",
    "716bb81f0fcd1852": "0.19.0 to 0.19.2"
   },
   "DistributedOptimizer._set_main_param_and_optimizer_states": {
    "ad03a66fb809b872": "0.18.0, 0.18.1, 0.18.2",
    "40cab784659711a8": "0.19.0 to 0.19.2"
   },
   "DistributedOptimizer.load_parameter_state_from_dp_reshardable": {
    "79cddb4c716f13c2": "0.18.0 to 0.19.2"
   },
   "DistributedOptimizer.load_state_dict": {
    "5c1ad081423b1d1c": "0.18.0, 0.18.1, 0.18.2",
    "7e5f988b86b48501": "0.19.0 to 0.19.2"
   },
   "DistributedOptimizer.sharded_param_state_dp_reshardable": {
    "5e103700ca80a82a": "0.18.0 to 0.19.2"
   },
   "DistributedOptimizer.sharded_state_dict": {
    "8beb5164ba90f3f9": "0.18.0 to 0.19.2"
   }
  },
  "megatron.core.optimizer.layer_wise_optimizer": {
   "LayerWiseDistributedOptimizer.get_grad_norm": {
    "492327dacd55ff61": "0.18.0, 0.18.1, 0.18.2",
    "10b1f48a2f74ef2e": "0.19.0 to 0.19.2"
   }
  },
  "megatron.core.optimizer.optimizer": {
   "ChainedOptimizer.step": {
    "75c16d1537843e62": "0.18.0, 0.18.1, 0.18.2",
    "c2b301e02ec29f4e": "0.19.0 to 0.19.2"
   },
   "MegatronOptimizer.clip_grad_norm": {
    "824fecd27f1e5f78": "0.18.0, 0.18.1, 0.18.2",
    "99e5568aa4d623cb": "0.19.0 to 0.19.2"
   }
  },
  "megatron.core.pipeline_parallel.schedules": {
   "forward_step_calc_loss": {
    "24757f83c3ded7a4": "0.18.0, 0.18.1, 0.18.2",
    "9990d300271b7dfc": "0.19.0 to 0.19.2"
   }
  },
  "megatron.core.transformer.attention": {
   "Attention.forward": {
    "3c1526e57c197f2d": "0.18.0, 0.18.1, 0.18.2",
    "b144e903f3ca6d8f": "0.19.0, 0.19.2"
   }
  },
  "megatron.core.transformer.moe.moe_layer": {
   "MoELayer.forward": {
    "6a2a1313d9e22c44": "0.18.0 to 0.19.2"
   },
   "MoELayer.route": {
    "15b4e6cc0bc63937": "0.18.0 to 0.19.2"
   }
  },
  "megatron.core.transformer.moe.moe_utils": {
   "compute_routing_scores_for_aux_loss": {
    "d183c63bf2fb7667": "0.18.0 to 0.19.2"
   },
   "get_tokens_per_expert_and_token_count": {
    "53bdcd7e66727922": "0.18.0 to 0.19.2"
   },
   "permute": {
    "d37d15db0b41d189": "0.18.0, 0.18.2, 0.19.2"
   },
   "switch_load_balancing_loss_func": {
    "1d9d774b2a32ecf4": "0.18.0 to 0.19.2"
   }
  },
  "megatron.core.transformer.moe.router": {
   "TopKRouter.routing": {
    "b13f6a7393c2b680": "0.18.0, 0.18.1, 0.18.2",
    "e93abc48c2d9420a": "0.19.0 to 0.19.2"
   }
  },
  "megatron.core.transformer.moe.token_dispatcher": {
   "MoEAllGatherTokenDispatcher.combine_preprocess": {
    "9b41813d5892c648": "0.18.0 to 0.19.2"
   },
   "MoEAllGatherTokenDispatcher.dispatch_postprocess": {
    "234d7f1092187f32": "0.18.0, 0.18.2, 0.19.2"
   },
   "MoEAllGatherTokenDispatcher.token_combine": {
    "7121227189005485": "0.18.0 to 0.19.2"
   },
   "MoEAllGatherTokenDispatcher.token_dispatch": {
    "30f06d726b4b4704": "0.18.0 to 0.19.2"
   }
  },
  "megatron.core.utils": {
   "local_multi_tensor_applier": {
    "15310e316e1e7778": "0.18.0 to 0.19.2"
   },
   "local_multi_tensor_l2_norm": {
    "01526c55444a73bd": "0.18.0 to 0.19.2"
   },
   "local_multi_tensor_scale": {
    "a271d86b61250d2f": "0.18.0 to 0.19.2"
   }
  }
 },
 "transformer-engine": {
  "transformer_engine.pytorch.cpp_extensions.gemm": {
   "general_grouped_gemm": {
    "ef84bbc803900484": "2.12.0, 2.13.0",
    "0f053e0cec025ca6": "2.14.0 to 2.15.0",
    "4b24d799c01c1db3": "2.16.0, 2.16.1",
    "ccdddb2b9cd8d927": "2.17.0 to 2.18.0",
    "a8106c38714c303b": "2.19.0, 2.20.2"
   }
  },
  "transformer_engine.pytorch.optimizers.fused_adam": {
   "FusedAdam.__init__": {
    "9f7ccf8300569498": "2.12.0",
    "46103e561b8fefe8": "2.13.0 to 2.20.2"
   },
   "FusedAdam._apply_scale": {
    "c663fdc0e097865e": "2.12.0",
    "e5a321b7426875eb": "2.13.0 to 2.20.2"
   },
   "FusedAdam.get_unscaled_state": {
    "2c3b25adfc6df531": "2.12.0",
    "b2ea131f81b63594": "2.13.0",
    "4da646848b662b79": "2.14.0 to 2.20.2"
   },
   "FusedAdam.initialize_state": {
    "b8e3834b7f7af826": "2.12.0, 2.13.0",
    "b0297e0617ff0cee": "2.14.0 to 2.20.2"
   },
   "FusedAdam.load_state_dict": {
    "21fe6fceb22d7017": "2.12.0, 2.13.0",
    "8a23175ba4db7676": "2.14.0 to 2.20.2"
   },
   "FusedAdam.set_scaled_state": {
    "1e0fe22cb42eda97": "2.12.0, 2.13.0",
    "8afa75adc0a0936b": "2.14.0 to 2.20.2"
   },
   "FusedAdam.state_dict": {
    "96f28e11612eb3f8": "2.12.0, 2.13.0",
    "52304e7671a539fd": "2.14.0 to 2.20.2"
   },
   "FusedAdam.step": {
    "62cbd8c48f919996": "2.12.0",
    "54ceee95d6f32664": "2.13.0",
    "c15553bf0522518e": "2.14.0 to 2.15.0",
    "8c9c24d2b06bf291": "2.16.0, 2.16.1",
    "07e2395ff3771406": "2.17.0 to 2.18.0",
    "dfc954c1314d0e12": "2.19.0",
    "6e3a1094f8f578af": "2.20.2"
   }
  },
  "transformer_engine.pytorch.optimizers.multi_tensor_apply": {
   "MultiTensorApply": {
    "5b7ae8679f3a9398": "2.12.0 to 2.17.1",
    "4d7ee6b52b484513": "2.18.0 to 2.20.2"
   }
  }
 },
 "transformers": {
  "transformers.trainer": {
   "Trainer._get_grad_norm": {
    "159a31c7dfa2beaa": "5.12.1 to 5.16.1",
    "913ba6f52f074d10": "5.17.0 to 5.19.0"
   },
   "Trainer._rotate_checkpoints": {
    "9a858beb18846c55": "4.51.3 to 5.1.0",
    "": "5.2.0 to 5.19.0"
   },
   "Trainer._save_checkpoint": {
    "a9111e30faa99339": "5.5.0 to 5.19.0"
   },
   "Trainer.evaluation_loop": {
    "35a11f83d269fdca": "5.5.0 to 5.19.0"
   },
   "Trainer.get_batch_samples": {
    "e95b6b1fbf3d1849": "4.51.3, 4.52.4",
    "06eda1c032e49e15": "4.53.3 to 4.55.4",
    "c8089e7a34f9cec3": "4.56.2",
    "4211a94c6eac798f": "4.57.6",
    "0b3727386f73f670": "5.0.0 to 5.19.0"
   },
   "Trainer.training_step": {
    "d700b95467ae456c": "4.51.3",
    "22eabf31e0f2a515": "4.52.4",
    "9fcec5145ad19892": "4.53.3",
    "ae7a85a828e123fa": "4.55.4",
    "6eb7e9a2bcfed6d8": "4.56.2, 4.57.6",
    "293387b06b9b0c39": "5.0.0, 5.1.0",
    "7acfd3d5040fed7c": "5.2.0 to 5.13.1",
    "a95f8c94253a5148": "5.14.0 to 5.18.0",
    "e9760c8ee10308d5": "5.19.0"
   }
  },
  "transformers.trainer_utils": {
   "rotate_checkpoints": {
    "": "4.51.3 to 5.1.0",
    "4aac03e039844595": "5.2.0 to 5.19.0"
   }
  }
 }
}
