"""Models and templates that ms-swift knows; made by ``scripts/dev/templates.py``, do not edit."""

# ruff: noqa: SIM905


def _table(text: str) -> dict[str, list[str]]:
    rows = (row.split(":") for row in " ".join(text.split()).split("; "))
    return {name: names.split() for name, names in rows}


TYPES = _table("""
BaiChuanForCausalLM: baichuan baichuan2; BaichuanForCausalLM: baichuan baichuan2;
BaichuanM1ForCausalLM: baichuan_m1; BailingMoeForCausalLM: ling; BailingMoeV2ForCausalLM:
bailing_moe; BailingMoeV2_5ForCausalLM: bailing_hybrid; BailingMoeV3ForCausalLM: bailing_hybrid;
BloomForCausalLM: seggpt; BlueLMForCausalLM: bluelm; ChatGLMForConditionalGeneration: chatglm2
chatglm3 chatglm4 codegeex4 chatglm4v codefuse_codegeex2; ChatGLMModel: chatglm2 chatglm3 chatglm4
codegeex4 chatglm4v codefuse_codegeex2; CogAgentForCausalLM: cogagent_chat cogagent_vqa;
CogVLMForCausalLM: cogvlm cogvlm2; CogVLMVideoForCausalLM: cogvlm2_video; CohereForCausalLM: c4ai
aya; DbrxForCausalLM: dbrx; DeepseekForCausalLM: deepseek; DeepseekOCR2ForCausalLM: deepseek_ocr2;
DeepseekOCRForCausalLM: deepseek_ocr; DeepseekV2ForCausalLM: deepseek_v2; DeepseekV32ForCausalLM:
deepseek_v32; DeepseekV3ForCausalLM: deepseek_v3; DeepseekV41ForCausalLM: deepseek_v41;
DeepseekV4ForCausalLM: deepseek_v4; DiffusionGemmaForBlockDiffusion: diffusion_gemma;
Dots1ForCausalLM: dots1; DotsOCRForCausalLM: dots_ocr; Emu3ForCausalLM: emu3_gen emu3_chat;
Ernie4_5_ForCausalLM: ernie4_5; Ernie4_5_MoeForCausalLM: ernie4_5_moe;
Ernie4_5_VLMoeForConditionalGeneration: ernie_vl; Florence2ForConditionalGeneration: florence;
GOTQwenForCausalLM: got_ocr2; GPT2LMHeadModel: polylm; Gemma2ForCausalLM: gemma2;
Gemma2ForSequenceClassification: gemma_reward; Gemma3ForCausalLM: gemma3_text;
Gemma3ForConditionalGeneration: gemma3_vision; Gemma3TextModel: gemma_emb;
Gemma3nForConditionalGeneration: gemma3n; Gemma4ForConditionalGeneration: gemma4;
Gemma4UnifiedForConditionalGeneration: gemma4_unified; GemmaForCausalLM: gemma; Glm4ForCausalLM:
glm4; Glm4MoeForCausalLM: glm4_moe; Glm4MoeLiteForCausalLM: glm4_moe_lite;
Glm4vForConditionalGeneration: glm4v; Glm4vMoeForConditionalGeneration: glm4v_moe;
Glm5NextForConditionalGeneration: glm5_next; GlmForCausalLM: glm_edge glm_edge_v;
GlmMoeDsaForCausalLM: glm_moe_dsa; GlmOcrForConditionalGeneration: glm_ocr;
GotOcr2ForConditionalGeneration: got_ocr2_hf; GptOssForCausalLM: gpt_oss; Grok1ModelForCausalLM:
grok; HYV3ForCausalLM: hy_v3; HunYuanDenseV1ForCausalLM: hunyuan_v1_dense; HunYuanMoEV1ForCausalLM:
hunyuan; HunYuanVLForConditionalGeneration: hunyuan_ocr; IQuestCoderForCausalLM: iquestcoder;
Idefics3ForConditionalGeneration: idefics3; InternLM2ForCausalLM: internlm2 xcomposer2_4khd;
InternLM2ForRewardModel: internlm2_reward; InternLM3ForCausalLM: internlm3; InternLMForCausalLM:
internlm; InternLMXComposer2ForCausalLM: xcomposer2 xcomposer2_4khd xcomposer2_5;
InternS1ForConditionalGeneration: interns1; InternVLChatModel: internvl_chat;
InternVLForConditionalGeneration: internvl; JinaRerankerM0ForConditionalGeneration:
jina_reranker_m0; KeyeForConditionalGeneration: keye_vl; KeyeVL1_5ForConditionalGeneration:
keye_vl_1_5; KimiK25ForConditionalGeneration: kimi_k25; KimiK3ForConditionalGeneration: kimi_k3;
KimiVLForConditionalGeneration: kimi_vl; LLaVAOneVision1_5_ForConditionalGeneration:
llava_onevision1_5; Llama4ForConditionalGeneration: llama4; LlamaForCausalLM: codefuse_codellama
llama openbuddy_llama yi; LlamaForSequenceClassification: llama3_2_reward;
LlavaForConditionalGeneration: llava_llama3_hf llava1_5_hf pixtral; LlavaLlamaForCausalLM:
llama3_llava_next llava1_6_yi yi_vl; LlavaMistralForCausalLM: llava1_6_mistral;
LlavaNextForConditionalGeneration: llava_next_qwen_hf llama3_llava_next_hf llava1_6_vicuna_hf
llava1_6_mistral_hf llava_llama3_1_hf llava1_6_yi_hf; LlavaNextVideoForConditionalGeneration:
llava_next_video_hf llava_next_video_yi_hf; LlavaOnevision2ForConditionalGeneration:
llava_onevision2; LlavaOnevisionForConditionalGeneration: llava_onevision_hf; LlavaQwenForCausalLM:
llava_next_qwen; LongcatFlashForCausalLM: longchat; MambaForCausalLM: mamba; MegrezO: megrez_omni;
MiDashengLMModel: midashenglm; MiMoForCausalLM: mimo; MiMoV2ForCausalLM: mimo_v2;
MiniCPM3ForCausalLM: minicpm3; MiniCPMForCausalLM: minicpm_moe minicpm minicpm_chatml; MiniCPMO:
minicpmo; MiniCPMV: minicpmv minicpmv2_5 minicpmv2_6 minicpmv4 minicpmv4_5;
MiniCPMV4_6ForConditionalGeneration: minicpmv4_6; MiniCPMV4_7ForConditionalGeneration: minicpmv4_7;
MiniMaxM1ForCausalLM: minimax_m1; MiniMaxM2ForCausalLM: minimax_m2;
MiniMaxM3SparseForConditionalGeneration: minimax_m3_vl; MiniMaxText01ForCausalLM: minimax;
MiniMaxVL01ForConditionalGeneration: minimax_vl; Mistral3ForConditionalGeneration: mistral3
mistral3_2506; MistralForCausalLM: mistral mistral_nemo mistral_2501 zephyr wizardlm2 devstral
openbuddy_mistral; MixtralForCausalLM: mixtral wizardlm2_moe openbuddy_mixtral;
MllamaForConditionalGeneration: llama3_2_vision; ModernBertForMaskedLM: modern_bert;
ModernBertForSequenceClassification: modern_bert_gte_reranker; ModernBertModel: modern_bert_gte;
Molmo2ForConditionalGeneration: molmo2; MolmoForCausalLM: molmo; MonkeyOCRv2VisionTransformer:
monkeyocrv2; MossVLForConditionalGeneration: moss_vl; MultiModalityCausalLM: deepseek_vl;
MuseGlimmerForConditionalGeneration: muse_glimmer; NemotronHForCausalLM: nemotron_h;
OLMoForCausalLM: molmoe; OlmoeForCausalLM: olmoe; OmniSpeech2SLlamaForCausalLM: llama3_1_omni;
OrionForCausalLM: orion; Ovis: ovis1_6 ovis2; Ovis2_5: ovis2_5;
PaddleOCRVLForConditionalGeneration: paddle_ocr paddleocr_vl; PaliGemmaForConditionalGeneration:
paligemma; Phi3ForCausalLM: phi3 phi4; Phi3SmallForCausalLM: phi3_small; Phi3VForCausalLM:
phi3_vision; Phi4MMForCausalLM: phi4_multimodal; PhiForCausalLM: phi2; PhiMoEForCausalLM: phi3_moe;
QWenLMHeadModel: qwen modelscope_agent qwen_audio qwen_vl codefuse_qwen;
Qwen2AudioForConditionalGeneration: qwen2_audio xcomposer2_5_ol_audio; Qwen2ForCausalLM: qwen2
qwen2_gte; Qwen2ForProcessRewardModel: qwen2_5_prm; Qwen2ForRewardModel: qwen2_reward;
Qwen2MoeForCausalLM: qwen2_moe; Qwen2VLForConditionalGeneration: qwen2_vl qwen2_gme;
Qwen2_5OmniForConditionalGeneration: qwen2_5_omni; Qwen2_5OmniModel: qwen2_5_omni;
Qwen2_5_VLForConditionalGeneration: qwen2_5_vl; Qwen3ASRForConditionalGeneration: qwen3_asr;
Qwen3ForCausalLM: qwen3 qwen3_emb qwen3_reranker; Qwen3MoeForCausalLM: qwen3_moe;
Qwen3NextForCausalLM: qwen3_next; Qwen3OmniMoeForConditionalGeneration: qwen3_omni_moe;
Qwen3TTSForConditionalGeneration: qwen3_tts; Qwen3VLForConditionalGeneration: qwen3_vl qwen3_vl_emb
qwen3_vl_reranker; Qwen3VLMoeForConditionalGeneration: qwen3_vl_moe;
Qwen3_5ForConditionalGeneration: qwen3_5; Qwen3_5MoeForConditionalGeneration: qwen3_5_moe;
Qwen4ExpForConditionalGeneration: qwen4_exp; SAILVLModel: sail_vl2; SeedOssForCausalLM: seed_oss;
SkyworkForCausalLM: skywork; Spark2_5ForCausalLM: spark2_5; Step1ForCausalLM: step_audio;
StepAudio2ForCausalLM: step_audio2_mini; StepVLForConditionalGeneration: step3_vl;
TeleChat2ForCausalLM: telechat2; TeleChatForCausalLM: telechat; TelechatForCausalLM: telechat;
UnlimitedOCRForCausalLM: unlimited-ocr; ValleyQwen2ForCausalLM: valley; WeMMEmbedding:
wemm_embedding; XLMRobertaForSequenceClassification: bge_reranker; Xing4_0ForCausalLM: xing4_0;
XverseForCausalLM: xverse xverse_moe; YoutuForCausalLM: youtu_llm; YuanForCausalLM: yuan2;
mPLUGDocOwl2: doc_owl2; mPLUGOwl3Model: mplug_owl3 mplug_owl3_241101
""")
"""Architecture of config.json to its model types in ms-swift."""
TEMPLATES = _table("""
bailing_hybrid: ling2 ring2_5; bailing_moe: ling2 ring2; clef: clef; deepseek_v2: deepseek
deepseek_v2_5; deepseek_v3: deepseek_v2_5 deepseek_r1 moonlight kimi_k2 deepseek_v3_1;
diffusion_gemma: diffusion_gemma; ernie4_5: ernie; ernie4_5_moe: ernie ernie_thinking; ernie_vl:
ernie_vl ernie_vl_thinking; gemma4: gemma4_nothinking gemma4; gemma4_unified: gemma4; glm4: glm4
glm4_z1_rumination; glm4_moe: glm4_5 glm4_7; glm4_moe_lite: glm4_7; glm4v: glm4v glm4_5v;
glm_moe_dsa: glm4_7 glm5_1 glm5_2; hy_v3: hy_v3_preview hy_v3; internvl: internvl_hf;
internvl_chat: internvl internvl_phi3 internvl2 internvl2_phi3 internvl2_5 internvl3_5
internvl3_5_gpt; jev: jev; llama: llama atom mengzi numina ziya megrez deepseek minimind llama3
llama3_2 skywork_o1 longwriter_llama deepseek_r1 minicpm5 reflection; midashenglm: midashenglm;
mimo: qwen mimo_rl; mimo_v2: mimo_v2; minicpmo: minicpmo minicpmo4_5; minimax_m2: minimax_m2
minimax_m2_1 minimax_m2_5 minimax_m2_7; olmoe: olmoe olmoe_0924; omnijev: omnijev; openbuddy_llama:
openbuddy openbuddy2; ovis1_6: ovis1_6 ovis1_6_llama3; paddleocr_vl: paddle_ocr_1_5; qwen2: qwen
qwen2_5 qwen2_5_math marco_o1 qwq_preview qwq deepseek_r1; qwen2_5_omni: qwen2_5_omni; qwen2_5_vl:
qwen2_5_vl mimo_vl; qwen2_audio: qwen2_audio; qwen2_reward: qwen qwen2_5_math; qwen2_vl: qwen2_vl
qvq; qwen3: qwen3 deepseek_r1 qwen3_guard yufeng_xguard qwen3_thinking qwen3_nothinking; qwen3_5:
qwen3_5; qwen3_5_moe: qwen3_5; qwen3_asr: qwen3_asr; qwen3_moe: qwen3 qwen3_nothinking qwen3_coder
qwen3_thinking; qwen3_next: qwen3_nothinking qwen3_thinking qwen3_coder; qwen3_omni_moe:
qwen3_omni; qwen3_tts: qwen3_tts; qwen3_vl: qwen3_vl; qwen3_vl_moe: qwen3_vl; qwen4_exp: qwen3_8;
yi: chatml yi_coder sus
""")
"""Model type to its templates, where ms-swift chooses among them by the model's name."""
UNPACKED = tuple(
    """
chatglm4v cogagent_chat cogagent_vqa cogvlm cogvlm2 cogvlm2_video deepseek_janus deepseek_janus_pro
deepseek_ocr deepseek_ocr2 deepseek_vl deepseek_vl2 diffusion_gemma doc_owl2 dots_ocr emu3_chat
emu3_gen ernie_vl ernie_vl_thinking florence gemma3_vision gemma3n gemma4 gemma4_nothinking
glm_edge_v glm_ocr got_ocr2 got_ocr2_hf gpt_oss hunyuan_ocr idefics3 ixcomposer2 keye_vl
keye_vl_1_5 llama3_1_omni llama3_2_vision llama3_llava_next llama3_llava_next_hf llama4 llava1_5_hf
llava1_6_mistral llava1_6_mistral_hf llava1_6_vicuna_hf llava1_6_yi llava1_6_yi_hf
llava_llama3_1_hf llava_llama3_hf llava_next_qwen llava_next_qwen_hf llava_next_video_hf
llava_onevision_hf megrez_omni midashenglm mimo_v2 minicpmo minicpmo4_5 minicpmv minicpmv2_5
minicpmv2_6 minicpmv4 minicpmv4_5 minicpmv4_7 minimax_m3_vl minimax_vl mistral_2503 mistral_2506
mistral_2512 mistral_2512_thinking molmo molmo2 monkeyocrv2 moss_vl mplug_owl2 mplug_owl3
mplug_owl3_241101 muse_glimmer ovis1_6 ovis1_6_llama3 ovis2 paddle_ocr paligemma phi3_vision
phi4_multimodal pixtral qwen2_audio qwen3_tts qwen_audio qwen_vl sail_vl2 step3_vl step_audio
step_audio2_mini unlimited_ocr valley xcomposer2_5 yi_vl
""".split()
)
"""Templates for which ms-swift refuses packing and padding_free."""
UNPACKED_ARCHITECTURES = frozenset(
    """
CogAgentForCausalLM CogVLMForCausalLM CogVLMVideoForCausalLM DeepseekOCR2ForCausalLM
DeepseekOCRForCausalLM DiffusionGemmaForBlockDiffusion DotsOCRForCausalLM Emu3ForCausalLM
Ernie4_5_VLMoeForConditionalGeneration Florence2ForConditionalGeneration GOTQwenForCausalLM
Gemma3ForConditionalGeneration Gemma3nForConditionalGeneration Gemma4ForConditionalGeneration
Gemma4UnifiedForConditionalGeneration GlmOcrForConditionalGeneration
GotOcr2ForConditionalGeneration GptOssForCausalLM HunYuanVLForConditionalGeneration
Idefics3ForConditionalGeneration InternLMXComposer2ForCausalLM KeyeForConditionalGeneration
KeyeVL1_5ForConditionalGeneration Llama4ForConditionalGeneration LlavaForConditionalGeneration
LlavaLlamaForCausalLM LlavaMistralForCausalLM LlavaNextForConditionalGeneration
LlavaNextVideoForConditionalGeneration LlavaOnevisionForConditionalGeneration LlavaQwenForCausalLM
MegrezO MiDashengLMModel MiMoV2ForCausalLM MiniCPMO MiniCPMV MiniCPMV4_7ForConditionalGeneration
MiniMaxM3SparseForConditionalGeneration MiniMaxVL01ForConditionalGeneration
Mistral3ForConditionalGeneration MllamaForConditionalGeneration Molmo2ForConditionalGeneration
MolmoForCausalLM MonkeyOCRv2VisionTransformer MossVLForConditionalGeneration MultiModalityCausalLM
MuseGlimmerForConditionalGeneration OLMoForCausalLM OmniSpeech2SLlamaForCausalLM Ovis
PaliGemmaForConditionalGeneration Phi3VForCausalLM Phi4MMForCausalLM
Qwen2AudioForConditionalGeneration Qwen3TTSForConditionalGeneration SAILVLModel Step1ForCausalLM
StepAudio2ForCausalLM StepVLForConditionalGeneration UnlimitedOCRForCausalLM ValleyQwen2ForCausalLM
mPLUGDocOwl2 mPLUGOwl3Model
""".split()
)
"""Architectures all of whose templates are ``UNPACKED``."""
NOT_ON_MEGATRON = frozenset(
    """
BaiChuanForCausalLM BaichuanForCausalLM BaichuanM1ForCausalLM BailingMoeForCausalLM
BloomForCausalLM BlueLMForCausalLM ChatGLMForConditionalGeneration ChatGLMModel CogAgentForCausalLM
CogVLMForCausalLM CogVLMVideoForCausalLM CohereForCausalLM DbrxForCausalLM DeepseekOCR2ForCausalLM
DeepseekOCRForCausalLM DiffusionGemmaForBlockDiffusion DotsOCRForCausalLM Emu3ForCausalLM
Ernie4_5_VLMoeForConditionalGeneration Florence2ForConditionalGeneration GOTQwenForCausalLM
GPT2LMHeadModel Gemma2ForCausalLM Gemma2ForSequenceClassification Gemma3ForCausalLM
Gemma3ForConditionalGeneration Gemma3TextModel Gemma3nForConditionalGeneration GemmaForCausalLM
GlmForCausalLM GlmOcrForConditionalGeneration GotOcr2ForConditionalGeneration Grok1ModelForCausalLM
HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM HunYuanVLForConditionalGeneration
IQuestCoderForCausalLM Idefics3ForConditionalGeneration InternLM2ForCausalLM
InternLM2ForRewardModel InternLMForCausalLM InternLMXComposer2ForCausalLM
InternS1ForConditionalGeneration JinaRerankerM0ForConditionalGeneration
KeyeForConditionalGeneration KeyeVL1_5ForConditionalGeneration KimiK3ForConditionalGeneration
LlamaForSequenceClassification LlavaForConditionalGeneration LlavaLlamaForCausalLM
LlavaMistralForCausalLM LlavaNextForConditionalGeneration LlavaNextVideoForConditionalGeneration
LlavaOnevision2ForConditionalGeneration LlavaOnevisionForConditionalGeneration LlavaQwenForCausalLM
LongcatFlashForCausalLM MambaForCausalLM MegrezO MiDashengLMModel MiMoV2ForCausalLM
MiniCPM3ForCausalLM MiniCPMForCausalLM MiniCPMO MiniCPMV MiniCPMV4_7ForConditionalGeneration
MiniMaxM1ForCausalLM MiniMaxM3SparseForConditionalGeneration MiniMaxText01ForCausalLM
MiniMaxVL01ForConditionalGeneration Mistral3ForConditionalGeneration MistralForCausalLM
MixtralForCausalLM MllamaForConditionalGeneration ModernBertForMaskedLM
ModernBertForSequenceClassification ModernBertModel Molmo2ForConditionalGeneration MolmoForCausalLM
MonkeyOCRv2VisionTransformer MossVLForConditionalGeneration MultiModalityCausalLM OLMoForCausalLM
OmniSpeech2SLlamaForCausalLM OrionForCausalLM Ovis PaddleOCRVLForConditionalGeneration
PaliGemmaForConditionalGeneration Phi3ForCausalLM Phi3SmallForCausalLM Phi3VForCausalLM
Phi4MMForCausalLM PhiForCausalLM PhiMoEForCausalLM QWenLMHeadModel
Qwen2AudioForConditionalGeneration Qwen2ForProcessRewardModel Qwen2ForRewardModel
Qwen3TTSForConditionalGeneration SAILVLModel SeedOssForCausalLM SkyworkForCausalLM
Spark2_5ForCausalLM Step1ForCausalLM StepAudio2ForCausalLM StepVLForConditionalGeneration
TeleChat2ForCausalLM TeleChatForCausalLM TelechatForCausalLM UnlimitedOCRForCausalLM
ValleyQwen2ForCausalLM WeMMEmbedding XLMRobertaForSequenceClassification Xing4_0ForCausalLM
XverseForCausalLM YoutuForCausalLM YuanForCausalLM mPLUGDocOwl2 mPLUGOwl3Model
""".split()
)
"""Architectures none of whose model types mcore-bridge has, in any of the releases."""
