"""Forms of pairs that ms-swift's readers lose or refuse, as data: ``row_forms.py`` reads them.

A form fits a row in which each of its columns has one of its kinds:

- ``text``: a text; ``texts``: a list of two texts
- ``talk``: a list of turns that begins with the system, a user or a tool
- ``asked``: such a list that does not end with the assistant
- ``task``: a map with such a list as ``messages``, and tools
- ``answer``: a list of turns that begins with the assistant, or one such turn
- ``transcript``: a text of "Human:" and "Assistant:" turns; ``script``: one that ends in
  "Assistant:"

``prompt`` and ``sides`` are joined in this order: a text of ``system`` is the system prompt, one of
a prompt the user's turn, one of a side the answer; a turn of the system counts before its
column, as for ms-swift. A name with ``?`` may be missing; ``PROMPT`` is
the only column of the names that ms-swift takes for the prompt.
"""

import re
from typing import Any

_TALKS = "messages|conversations|conversation"
_SYSTEM = "system|system_prompt?"
AS_TEXT = re.compile(r"""\[\{\s*['"](?:role|from|content|value)['"]|\{"messages\"""")
"""Turns as JSON or as Python writes them."""

FORMS: tuple[dict[str, Any], ...] = (
    {
        "name": "transcripts (hh-rlhf)",
        "columns": {"chosen": ["transcript"], "rejected": ["transcript"]},
    },
    {
        "name": "whole conversations (ultrafeedback_binarized, orpo-dpo-mix)",
        "columns": {"chosen": ["talk"], "rejected": ["talk"]},
        "prompt": [_SYSTEM],
    },
    {
        "name": "conversation and answers (LlamaFactory, TRL's explicit prompt)",
        "columns": {
            _TALKS: ["asked"],
            "chosen": ["answer", "text"],
            "rejected": ["answer", "text"],
        },
        "prompt": [_SYSTEM, _TALKS],
    },
    {
        "name": "prompt and answers as turns (TRL's explicit prompt)",
        "columns": {"PROMPT": ["asked", "text"], "chosen": ["answer"], "rejected": ["answer"]},
        "prompt": [_SYSTEM, "PROMPT"],
    },
    {
        "name": "instruction, input and answers (alpaca)",
        "columns": {
            "instruction": ["text"],
            "input": ["text"],
            "chosen": ["text"],
            "rejected": ["text"],
        },
        "prompt": [_SYSTEM, "instruction+input"],
    },
    {
        "name": "instruction and two outputs (alpaca)",
        "columns": {"instruction": ["text"], "output": ["texts"]},
        "prompt": [_SYSTEM, "instruction+input?"],
        "sides": ["output[0]", "output[1]"],
    },
    {
        "name": "input and preferred output (OpenAI)",
        "columns": {
            "input": ["task"],
            "preferred_output": ["answer"],
            "non_preferred_output": ["answer"],
        },
        "prompt": ["input"],
        "sides": ["preferred_output", "non_preferred_output"],
    },
    {
        "name": "prompts as transcripts (full-hh-rlhf)",
        "columns": {"PROMPT": ["script"], "chosen": ["text"], "rejected": ["text"]},
        "prompt": [_SYSTEM, "PROMPT"],
    },
    {
        "name": "prompt and answers as texts (orca_dpo_pairs)",
        "columns": {"PROMPT": ["asked", "text"], "chosen": ["text"], "rejected": ["text"]},
        "prompt": [_SYSTEM, "PROMPT"],
    },
)
"""In the order in which they are tried."""
REGISTERED = (
    "orpo-dpo-mix-40k", "DPO-zh-en-emoji", "shareAI-Llama3-DPO-zh-en-emoji",
    "Human-Like-DPO-Dataset", "RLAIF-V-Dataset", "stack-exchange-paired", "zhihu_rlhf_3k",
)  # fmt: skip
"""Folders that have a reader of ms-swift's own (``swift/dataset/dataset/llm.py``, ``mllm.py``)."""
SUBSETS = (
    "AgentInstruct_copy", "COIG-CQIA", "GRIT", "HC3", "HC3-Chinese", "Infinity-Instruct",
    "LLaVA-Video-178K", "M3IT", "Mantis-Instruct", "R1-Distill-SFT", "ShareGPT4V", "VideoChatGPT",
    "alpha-umi-toolbench-processed-v2", "coco_2014_caption", "cosmopedia", "dolphin",
    "geometry3k", "hh-rlhf", "hh_rlhf_cn", "medical-o1-reasoning-SFT", "medical_zh",
    "nlp_polylm_multialpaca_sft", "refcoco", "refcocog", "ruozhiba", "sharegpt",
    "speech_asr_aishell1_trainsets", "swift-sft-mixture", "Open-Jev",
)  # fmt: skip
"""Folders that end in "Please provide subsets": ms-swift knows several and none called default."""
QUERIES = ("query", "prompt", "input", "instruction", "question", "problem")
"""Columns that ms-swift takes for the prompt, if it is the only one (``ResponsePreprocessor``)."""
ANSWERS = (
    "response", "answer", "output", "targets", "target", "answer_key", "answers", "solution",
    "text", "completion", "content",
)  # fmt: skip
"""The same for the answer."""
SYSTEMS = ("system", "system_prompt")
TALKS = ("messages", "conversation", "conversations")
TYPED = ("rejected_response", "tools", "rejected_tools", "margin", "label", "channel")
"""Columns that have the type of their values for ms-swift (``preprocessor/core.py``:
``standard_keys``, ``_patch_arrow_writer``)."""
MEDIA = ("image", "images"), ("video", "videos"), ("audio", "audios")
