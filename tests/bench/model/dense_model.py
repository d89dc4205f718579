"""Write a dense model with random weights: ``dense_model FOLDER NAME --tokenizer FOLDER``.

NAME is a model of ``scripts/plan/models.yaml``, whose sizes it has. transformers draws the weights,
in bf16, on the first GPU if there is one.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import yaml

MODELS = Path(__file__).parents[3] / "scripts" / "plan" / "models.yaml"
CLASSES = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
SEED = 7


def config(name: str, layers: int = 0) -> dict[str, Any]:
    """Return ``config.json`` of a model.

    0 layers are the model's own number.

    >>> config("Qwen2.5-7B")["architectures"], config("Qwen3-8B", 4)["num_hidden_layers"]
    (['Qwen2ForCausalLM'], 4)
    """
    models: dict[str, dict[str, Any]] = yaml.safe_load(MODELS.read_text(encoding="utf-8"))
    dense = {each: sizes for each, sizes in models.items() if sizes["model_type"] in CLASSES}
    if name not in dense:
        raise ValueError(f"{name} is not a dense model; write {', '.join(dense)}")
    found = {"architectures": [CLASSES[dense[name]["model_type"]]], **dense[name]}
    return found | ({"num_hidden_layers": layers} if layers else {})


def write(folder: Path, sizes: dict[str, Any], tokenizer: Path) -> None:
    """Write weights, configuration and tokenizer; the same weights on the same kind of device."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(SEED)
    given = {key: value for key, value in sizes.items() if key != "torch_dtype"}
    made = AutoConfig.for_model(**given)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model: Any = AutoModelForCausalLM.from_config(made, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | sizes, indent=1))
    for file in tokenizer.iterdir():
        if "token" in file.name or file.suffix == ".jinja":
            shutil.copy(file, folder / file.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=0)
    options = parser.parse_args()
    write(options.folder, config(options.name, options.layers), options.tokenizer)


if __name__ == "__main__":
    main()
