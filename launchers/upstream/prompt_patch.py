"""The patch ``prompt_once``: what it replaces of upstream, and what it relies on."""

from launchers.upstream.patches import Patch, functions

PROMPT_ONCE = Patch(
    "prompt_once",
    "numbers",  # a step has other pairs, and attention other kernels
    (
        *functions("swift.pipelines.train.sft:SwiftSft", "_encode_dataset _post_process_datasets"),
        *functions("swift.dataset.packing:PackingDataset", "__init__ create_packed_idx"),
        *functions("swift.template.base:Template", "_rlhf_data_collator packing_row"),
        *functions(
            "swift.megatron.trainers.base:BaseMegatronTrainer", "_get_data_collator _prepare_batch"
        ),
        *functions("swift.megatron.trainers.utils", "prepare_batch"),
        # positions: of each token without the fused rotation, of a pack's description with it
        *functions("mcore_bridge.model.gpt_model:GPTModel", "_get_rotary_pos_emb forward"),
        *functions("mcore_bridge.patcher", "_patch_mrope"),
        *functions("megatron.core.transformer.attention:Attention", "forward"),
        *functions("megatron.core.extensions.transformer_engine:TEDotProductAttention", "forward"),
    ),
    otherwise="set recipe.promptOnce: false",
)
