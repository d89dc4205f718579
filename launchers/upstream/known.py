"""The sources of upstream's functions that our patches were written for, by their digests.

``upstream/patches.py`` says which patch relies on which function. A test compares the digests with
the files that ``make setup`` installs. After reading another release add its digests, which
``python3 -m launchers patches`` prints for the functions that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping

Read = Mapping[str, Mapping[str, Mapping[str, str]]]
"""By module and qualified name: the releases that were read, by the SHA-256 of the function's
source; an empty digest stands for a release that does not have the function."""

_SWIFT: Read = {
    "swift.megatron.pipelines.train.sft": {
        "MegatronSft._set_seed": {
            "d94dc98fc8b6d81fefd9a8fc7653853f3bdb5c24168ba1f700b0ea2d95f1d2cf": "4.4.1",
        },
        "MegatronSft.__init__": {
            "bcef98f8fbe8db7784198f48419096af20dafc8a01945fe8e82ebc1cb3c06561": "4.4.1",
        },
        "MegatronSft.run": {
            "10672ef2d21496befe945d906d76c43d910bc1a77f7f29c917c24d4c3265e74b": "4.4.1",
        },
    },
    "swift.pipelines.base": {
        "SwiftPipeline.__init__": {
            "70e7c1a01fda901dd1ddb758d282ac1349c3816222173b9775e3b742afe5b28d": "4.4.1",
        },
        "SwiftPipeline._set_seed": {
            "e8019c1c9df8acd7aed6b5707acbd0c726b197655b16109bcd9e7afa7a04d585": "4.4.1",
        },
    },
    "swift.pipelines.train.sft": {
        "SwiftSft.__init__": {
            "4c19b337265590975e9aa416a8aea350c00a9b6c108afe4cd6c3f9e6edb282b6": "4.4.1",
        },
        "SwiftSft.run": {
            "179fae4d45af175a924f0f2a0482dc948ad83488bfa560064f7bc5e123bcc9d1": "4.4.1",
        },
        "SwiftSft._prepare_model_tokenizer": {
            "1c249c6e4eb1199c46c43e5a03ddfe2eff4cb0c5e6de8e2fb061c272e5dc2b0d": "4.4.1",
        },
        "SwiftSft._prepare_template": {
            "1dbf44a1a0f964ed992cac40d9aa7ad8126b47d8e2661064be199f6bd1670d8b": "4.4.1",
        },
        "SwiftSft._prepare_dataset": {
            "996019bae120addc1b610e3adb25ca6b530fa84133a3c3df2aede8010d9bae08": "4.4.1",
        },
        "SwiftSft._get_dataset": {
            "34072c6917ca9f32ec3523105b583d0fd6c625ceac708c3ad677486b49dfc6d2": "4.4.1",
        },
        "SwiftSft._encode_dataset": {
            "404586e78c1ad673cd7c04ef2438dc45ebcde45f9805f00c43474d421a08a898": "4.4.1",
        },
        "SwiftSft._post_process_datasets": {
            "5e5a9090480f7d6544be262c6fa9284c3c57f85d7f18fdb1c21129f00b4697de": "4.4.1",
        },
    },
    "swift.megatron.trainers.base": {
        "BaseMegatronTrainer.__init__": {
            "16d6a7a1d0a0329a5e00429fa06ed8f149ec12b976df9dec5751046bac7cb9ad": "4.4.1",
        },
        "BaseMegatronTrainer._prepare_peft_model": {
            "02d50a3537c5db515582a8f1592941d77f34f223ac0331a54e7ff0cff8e4b73f": "4.4.1",
        },
        "BaseMegatronTrainer.prepare_model": {
            "5e69329368ee3e675945c8f3eee4a6a121f6dbbef6fd872d462c1ee76b75a91b": "4.4.1",
        },
        "BaseMegatronTrainer.get_optimizer_and_scheduler": {
            "05aa52ebba1fac354add085a7ea50a63e73354ca8ac204ccf1044b4a28ddbff9": "4.4.1",
        },
        "BaseMegatronTrainer._load_checkpoint": {
            "38d449a6cb92cc387cb36fc25c4bdf9a46944d36491dc036475f15d098f4b1ef": "4.4.1",
        },
        "BaseMegatronTrainer.get_batch": {
            "ed052e5328217b80cd0bdf9f880b75449c57480ddfbfe90811d6b73364508667": "4.4.1",
        },
        "BaseMegatronTrainer.setup_training": {
            "d51a27bc65c54bf0e2b2e3ba3e9e6180db5468011ba8bdf8fcb78b1abca8292c": "4.4.1",
        },
        "BaseMegatronTrainer.run_train_step": {
            "4c177b1e5f20df4ad336d11e1c5f8ea618ea948d56c6defdf3f728022c14a369": "4.4.1",
        },
        "BaseMegatronTrainer.save_checkpoint": {
            "2986cdc2515645d7b844451ae225d75a23d06b7254af25e021f79a68846205b1": "4.4.1",
        },
        "BaseMegatronTrainer.train_step": {
            "fe05dddd7c98d5cc7db7a43819e6842db979cff45c7076b13f7e00566e5ad00f": "4.4.1",
        },
        "BaseMegatronTrainer._get_data_collator": {
            "42af75dba29ebe03a44fae108d23997af9f53e407e41d1f1e8427a5cb933e0dc": "4.4.1",
        },
        "BaseMegatronTrainer._create_dataloader": {
            "aa49ce548db5b76f01d0ce737fb087a043b538b3bcaa08e1f50f71d5d78d1d0a": "4.4.1",
        },
        "BaseMegatronTrainer._prepare_dataloader": {
            "05f1b28d8f52f48bc5ae45f948c5610f0eb55e8543cba73dbdb3657a20e392c7": "4.4.1",
        },
        "BaseMegatronTrainer._all_reduce_metric": {
            "ae520ee6bb7efd7f05adf15381d741d4de0588e9459d0a727caceb0135f2b40d": "4.4.1",
        },
        "BaseMegatronTrainer.merge_lora_adapters": {
            "24599db865d0960f57bed4d4fdf5d2f0cefbca210e9c267bd6bb46f1b81f806f": "4.4.1",
        },
        "BaseMegatronTrainer.unmerge_lora_adapters": {
            "b0aa3c6eea47a86557b29643b4164fcd5bacb1f656b6cb7756f6c22b05dc9297": "4.4.1",
        },
    },
    "swift.megatron.trainers.rlhf_mixin": {
        "MegatronRLHFTrainer.prepare_model": {
            "149271e24cd49c0398d834ab054e61651a9b95c86eb41686185380dbecfe7db1": "4.4.1",
        },
        "MegatronRLHFTrainer._load_checkpoint": {
            "cc4bba8fa79016c0fb7af4105dce7cfe0543b6a15e4d967d8d241c374f86c868": "4.4.1",
        },
        "MegatronRLHFTrainer._get_data_collator": {
            "a91091da5953bcd035eba10cf8264cf871f48dce4ebae413595488bbc60f79f0": "4.4.1",
        },
        "MegatronRLHFTrainer.get_logps": {
            "d21952cfe5bb6a063b6504930d805cb502a8d5e6b9cedb39a9542510647b46c2": "4.4.1",
        },
    },
    "swift.megatron.trainers.dpo_trainer": {
        "DummyDPOTrainer.__init__": {
            "b9996e16f27311bd1a4967ff77a6f450b992b6313ea72a4d0421b60dc92dfab6": "4.4.1",
        },
        "MegatronDPOTrainer.__init__": {
            "78a1cbd1d8074e523e70f6c563e6a702d7ede857b5fb4f9d224e8aa630c07f33": "4.4.1",
        },
        "MegatronDPOTrainer.loss_func": {
            "3a8b6f5ec9c92088777b84c642e767ea4716c5697837dd739a7c618724f97b54": "4.4.1",
        },
        "MegatronDPOTrainer.forward_step": {
            "b8902c53beba0cf8024cb910257e9b0ffa86f73807402a4daf9486ab88736ba5": "4.4.1",
        },
    },
    "swift.rlhf_trainers.dpo_trainer": {
        "DPOTrainer.dpo_loss": {
            "1aaa4687df01d23644ef038682c2121ba5b7d509d84d3716dae0c6d1d39c6648": "4.4.1",
        },
    },
    "swift.megatron.trainers.batch_sampler": {
        "MegatronPretrainingRandomSampler": {
            "2b16669d2ce270b680584ff0f5b1815d5a052b1b9e16bfc47f661d43ccb820ee": "4.4.1",
        },
    },
    "swift.megatron.arguments.megatron_args": {
        "MegatronArguments.init_iters": {
            "4622d8a74019d63d3d8d0fc6c9042c5d50939aa98a22fc653dce215334a70e73": "4.4.1",
        },
    },
    "swift.megatron.utils.utils": {
        "get_padding_to": {
            "7d5ac492b363898525b786fe183b402ed432987a946977cb91685b7f2a5cc7ef": "4.4.1",
        },
        "get_packed_seq_params": {
            "a5a4f6b83e9d6bed73254d718625cc2194039e1140cc52efb58bdf6c77361964": "4.4.1",
        },
    },
    "swift.utils.transformers_utils": {
        "get_packed_seq_params": {
            "8f4a854d24fcdba3abec9ed933e1690d6280f0cf393cd9153ea83ab5198a6b3c": "4.4.1",
        },
    },
    "swift.megatron.utils.megatron_lm_utils": {
        "wrap_model": {
            "e19aa52928e6aae26c4112cb3fc19b7bc56b9b02bea77c3193430a87627f7422": "4.4.1",
        },
    },
}
_BRIDGE: Read = {
    "mcore_bridge.bridge.gpt_bridge": {
        "GPTBridge.load_weights": {
            "8f407d3c46596ec67f201664af8da9611bd39d580d1f0aa54b9e288d291ddc61": "1.6.0",
        },
        "GPTBridge._set_mlp_state": {
            "b40091930b635c00f3856f9d64a479586c1b4a530c3fee0e8d7e9bdb67af5e4f": "1.6.0",
        },
    },
    "mcore_bridge.utils.safetensors": {
        "SafetensorLazyLoader": {
            "8d7dc8412500e2229c74077fb85d6a7a585a7dbbe2679b111508966c3a02d7ee": "1.6.0",
        },
    },
    "mcore_bridge.config.model_config": {
        "ModelConfig.__post_init__": {
            "f7f768b1d1570c3b643120909573f37c6060ded559764968384d1207acd1ad9f": "1.6.0",
        },
    },
}
_CORE: Read = {
    "megatron.core.transformer.moe.moe_layer": {
        "MoELayer.routed_experts_compute": {
            "d5f474eadfb6f465b8550a1bebefd1d155cb21b4629370451b31808e09fc2611": "0.18.0, 0.18.1",
        },
    },
    "megatron.core.optimizer.clip_grads": {
        "get_grad_norm_fp32": {
            "40c55d8ae4641b403a44c0dcad031efa0c7c2bfd9bf7e6089cd144aeed5aeb31": "0.18.0, 0.18.1",
        },
        "clip_grad_by_total_norm_fp32": {
            "cf07b488fb76a8ae90ba0809d1fbd36e05dcccf24b4644af1621a8b616c01784": "0.18.0, 0.18.1",
        },
    },
    "megatron.core.utils": {
        "local_multi_tensor_applier": {
            "15310e316e1e77785a71ee870c064103e728e02964ccace3ec099cd220fe3c8a": "0.18.0, 0.18.1",
        },
        "local_multi_tensor_l2_norm": {
            "01526c55444a73bd00bebbf536bc92f9ac80eadca0cbbbfbd3a1d8c99cb07548": "0.18.0, 0.18.1",
        },
        "local_multi_tensor_scale": {
            "a271d86b61250d2f00bad84f72ecd194291f5be4a5e1c80a24703dafe25d9171": "0.18.0, 0.18.1",
        },
    },
    "megatron.core.distributed.param_and_grad_buffer": {
        "_ParamAndGradBucketGroup.check_grads": {
            "94e99add61f34256389e9132efc1e089c1331d26e575d00b61e23f7c68210eb0": "0.18.0, 0.18.1",
        },
        "_ParamAndGradBucketGroup.start_grad_sync": {
            "163db4ed5c59a61d5cca3b729426efd50889bfc5a058b7ec10d311316e39dac0": "0.18.0, 0.18.1",
        },
        "_ParamAndGradBucketGroup.register_grad_ready": {
            "b0544c1dd312900717d2852e62444fa97af6c967bb72cd1936bdc867508d0356": "0.18.0, 0.18.1",
        },
    },
    "megatron.core.distributed.distributed_data_parallel": {
        "DistributedDataParallel._make_backward_post_hook": {
            "7cb975df73c5c859cccdcee3e7597f8e7fe5e167b63c2d8f14f94e6ad58de577": "0.18.0, 0.18.1",
        },
    },
    "megatron.core.optimizer.optimizer": {
        "MegatronOptimizer.clip_grad_norm": {
            "824fecd27f1e5f785a4cde04058b1fc63f4d1ab861288eaa714927b54becf9bc": "0.18.0, 0.18.1",
        },
        "ChainedOptimizer.step": {
            "75c16d1537843e6275b1651b125741e06fa2997b782ed93454a4f928617ee934": "0.18.0, 0.18.1",
        },
    },
    "megatron.core.extensions.transformer_engine": {
        "TEGroupedLinear.forward": {
            "8c81986769a44b610b48ef957ffd71031d1af7535f9bc302c904919b0b2593a6": "0.18.0, 0.18.1",
        },
    },
    "megatron.core.transformer.moe.token_dispatcher": {
        "MoEAllGatherTokenDispatcher.token_dispatch": {
            "30f06d726b4b4704009199cb3c64ace3c961c097cdeac4a300389ee3fc509369": "0.18.0, 0.18.1",
        },
        "MoEAllGatherTokenDispatcher.token_combine": {
            "7121227189005485f533a7f4a39864a24f101bfc2950396221c101f327f66962": "0.18.0, 0.18.1",
        },
        "MoEAllGatherTokenDispatcher.combine_preprocess": {
            "9b41813d5892c64816d21550763276309f10a484dd40e39514bdaa80bb96bdfc": "0.18.0, 0.18.1",
        },
    },
}
_ENGINE: Read = {
    "transformer_engine.pytorch.optimizers.multi_tensor_apply": {
        "MultiTensorApply": {
            "5b7ae8679f3a9398e24564af19260868fa6a02b49aedbf48b3326259759529b9": "2.12.0 to 2.17.1",
            "4d7ee6b52b4845131493047b726ebad96385d630132a3ff3a3d712dc0e289730": "2.18.0 to 2.20.2",
        },
    },
    "transformer_engine.pytorch.cpp_extensions.gemm": {
        "general_grouped_gemm": {
            "ef84bbc803900484b4371bf49c15fe3365980a0b80b5f008f8846ec7b7ca4be6": "2.12.0, 2.13.0",
            "0f053e0cec025ca646af3911debe08752085f013b12133276e3461c5e1bd87c8": "2.14.0 to 2.15.0",
            "4b24d799c01c1db3430f3c7f3246535f5179e9d269e7981820fc038f7087b087": "2.16.0, 2.16.1",
            "ccdddb2b9cd8d927540e9098d5a20e3877eda1915d1cd47a90f0fbb83d82970f": "2.17.0 to 2.18.0",
            "a8106c38714c303b991e13345a0b4c132acaaaeeb84f4003ffa34b8ffbbc9fcb": "2.19.0, 2.20.2",
        },
    },
    "transformer_engine.pytorch.optimizers.fused_adam": {
        "FusedAdam.step": {
            "62cbd8c48f9199960df04ef78394de404fb5459454f459566b44b679ffdbc914": "2.12.0",
            "54ceee95d6f326641e376368a00fa75f221eaf7f3dbd10042db50f73c4cd9509": "2.13.0",
            "c15553bf0522518ee4765d2bd790e2709f529ee065af5191039c8e694a333299": "2.14.0 to 2.15.0",
            "8c9c24d2b06bf2918e93313fb2a0c6c57d351b4f85496d6286b218d6305500d8": "2.16.0, 2.16.1",
            "07e2395ff3771406f6e46a0513b3cdecafd63291d26a14827bf0df14f025a970": "2.17.0 to 2.18.0",
            "dfc954c1314d0e122f28d43b7bb469dc7503e06859c7e948aa6d92afcaa02dd1": "2.19.0",
            "6e3a1094f8f578af7f41c571d38212bd9694214848e49d35961fe18a97ea358a": "2.20.2",
        },
        "FusedAdam.__init__": {
            "9f7ccf830056949832dae0624a64a461f08511313502cb32f84411c45fd41254": "2.12.0",
            "46103e561b8fefe88b4d26e0efc2298bfff65d6f4752ef289e493abc851e1077": "2.13.0 to 2.20.2",
        },
        "FusedAdam.get_unscaled_state": {
            "2c3b25adfc6df531a5411a092edfb5ec82dcc440d6284c81ecb28f755c6f9e38": "2.12.0",
            "b2ea131f81b635948897b2042260d3ca9acb0435347cd6b074f87bedf112dc6c": "2.13.0",
            "4da646848b662b79fdefd09a18cc1e4916821c1052b9db937927ff1075f20d9a": "2.14.0 to 2.20.2",
        },
        "FusedAdam._apply_scale": {
            "c663fdc0e097865e8138026b5c1d1aa04aba486df575c82d422e8ed086ccea52": "2.12.0",
            "e5a321b7426875eb5366523f499958d34a995967d0f5e3ca11ea69e7aa7d4898": "2.13.0 to 2.20.2",
        },
        "FusedAdam.initialize_state": {
            "b8e3834b7f7af82648fe712a217884e8d692ba016ac53c82661dbafef638ee25": "2.12.0, 2.13.0",
            "b0297e0617ff0ceeb460ba4fc669b489392ec5e121cfa8bf5e676b77b1322d2c": "2.14.0 to 2.20.2",
        },
    },
}
_TRANSFORMERS: Read = {
    "transformers.trainer_utils": {
        "rotate_checkpoints": {
            "": "4.51.3 to 5.1.0",
            "4aac03e039844595f9446ef8f68a34e2e83086b6bdd65d146c5c15c32cb912e3": "5.2.0 to 5.12.1",
        },
    },
    "transformers.trainer": {
        "Trainer._rotate_checkpoints": {
            "9a858beb18846c5593e144c3784908179473e0bcdc2e630508c769ec9dc83a6a": "4.51.3 to 5.1.0",
            "": "5.2.0 to 5.12.1",
        },
        "Trainer.get_batch_samples": {
            "e95b6b1fbf3d1849ac1955dff3ca00d8277e637979ad1c8c444da11dcdab25b2": "4.51.3, 4.52.4",
            "06eda1c032e49e15ada54357b02b70ac1b7b077282882d1e08b0ffaa7ba62fac": "4.53.3 to 4.55.4",
            "c8089e7a34f9cec3d8a44de5844082fc6dc4e8d8a47e1246b867fa2aeb0795d8": "4.56.2",
            "4211a94c6eac798f48d77d61ba4051fc0e3bdd5ffa5f4f28bfed7fc798ddfcde": "4.57.6",
            "0b3727386f73f67053b12b91e01c69673c8baf57e9a68769220a25515c468f94": "5.0.0 to 5.12.1",
        },
    },
}
SOURCES: Mapping[str, Read] = {
    "ms-swift": _SWIFT,
    "mcore-bridge": _BRIDGE,
    "megatron-core": _CORE,
    "transformer-engine": _ENGINE,
    "transformers": _TRANSFORMERS,
}
"""By the name of the distribution."""
