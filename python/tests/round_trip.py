"""One safetensors saves models of transformers, peft and diffusers, and the other loads them.

    round_trip.py save FOLDER     writes tiny random models, and what they hold (expected.pt)
        round_trip.py load FOLDER     loads each of them, compares every tensor, prints how many

The interpreter's command line selects the safetensors: python, or python -m tenmap.safetensors.
"""

import os
import pathlib
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch
import transformers
from transformers import AutoModel, BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, T5Config, T5Model

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

SMALL = dict(vocab_size=99, hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4)
MODELS = {
    "llama": (LlamaForCausalLM, lambda: LlamaConfig(**SMALL)),
    "llama-tied": (LlamaForCausalLM, lambda: LlamaConfig(**SMALL, tie_word_embeddings=True)),
    "bert": (BertModel, lambda: BertConfig(**SMALL)),
    "t5": (T5Model, lambda: T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4)),
}


def cache_layout(folder):
    """Copies the layout of a hub's cache: the snapshot's files are links to blobs."""
    snapshot = folder.with_name(folder.name + "-cache") / "snapshots" / "main"
    blobs = snapshot.parents[1] / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for i, file in enumerate(sorted(folder.iterdir())):
        blob = blobs / f"{i:040x}"
        blob.write_bytes(file.read_bytes())
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))


def save(root):
    for name, (kind, config) in MODELS.items():
        torch.manual_seed(1)
        model = kind(config())
        for layout, arguments in (("whole", {}), ("sharded", {"max_shard_size": "20KB"})):
            for dtype in (torch.float32, torch.bfloat16):
                folder = root / f"{name}-{layout}-{str(dtype)[6:]}"
                model = model.to(dtype)
                model.save_pretrained(folder, **arguments)
                torch.save(model.state_dict(), folder / "expected.pt")
                cache_layout(folder)
    save_adapter(root)
    save_diffusion(root)


def diffusion_models():
    """Returns a tiny autoencoder and a tiny UNet, or None without diffusers."""
    try:
        from diffusers import AutoencoderKL, UNet2DModel
    except ImportError:
        return print("skipped: diffusers is not here")
    blocks = dict(block_out_channels=(8, 16), norm_num_groups=4)
    return {
        "autoencoder": (AutoencoderKL, dict(down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2, **blocks)),
        "unet": (UNet2DModel, dict(down_block_types=["DownBlock2D"] * 2, up_block_types=["UpBlock2D"] * 2, **blocks)),
    }  # fmt: skip


def save_diffusion(root):
    for name, (kind, arguments) in (diffusion_models() or {}).items():
        torch.manual_seed(1)
        model = kind(**arguments)
        for layout, more in (("whole", {}), ("sharded", {"max_shard_size": "40KB"})):
            folder = root / f"diffusers-{name}-{layout}"
            model.save_pretrained(folder, **more)
            assert list(folder.glob("*.safetensors")), folder
            torch.save(model.state_dict(), folder / "expected.pt")


def load_diffusion(root):
    count = 0
    for folder in sorted(root.glob("diffusers-*")):
        kind = diffusion_models()[folder.name.split("-")[1]][0]
        count += compare(kind.from_pretrained(folder).state_dict(), torch.load(folder / "expected.pt"), str(folder))
    return count


def save_adapter(root):
    try:
        from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
    except ImportError:
        return print("skipped: peft is not here")
    base = MODELS["llama"][0](MODELS["llama"][1]())
    adapted = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False))
    adapted.save_pretrained(root / "adapter")
    torch.save(get_peft_model_state_dict(adapted), root / "adapter" / "expected.pt")


def compare(found, expected, name):
    assert found.keys() == expected.keys(), name
    for key, tensor in expected.items():
        assert found[key].dtype == tensor.dtype and torch.equal(found[key], tensor), f"{name}: {key}"
    return len(expected)


def load(root):
    count = 0
    for name, (kind, _) in MODELS.items():
        for folder in sorted(root.glob(f"{name}-[ws]*")):
            inner = folder / "snapshots" / "main"
            folder = inner if inner.is_dir() else folder
            expected = torch.load(folder / "expected.pt")
            dtype = next(iter(expected.values())).dtype
            model = kind.from_pretrained(folder, dtype=dtype)
            count += compare(model.state_dict(), expected, str(folder))
            with torch.no_grad():  # loaded tensors may require gradients
                next(model.parameters()).add_(1)
            AutoModel.from_pretrained(folder)
    if (root / "adapter").is_dir():
        from peft import PeftModel, get_peft_model_state_dict

        adapted = PeftModel.from_pretrained(MODELS["llama"][0](MODELS["llama"][1]()), root / "adapter")
        count += compare(get_peft_model_state_dict(adapted), torch.load(root / "adapter" / "expected.pt"), "adapter")
    diffused = load_diffusion(root)
    print(f"{count + diffused} tensors are equal, {diffused} of them of diffusers")


if __name__ == "__main__":
    import safetensors

    print(f"{sys.argv[1]} with {safetensors.__file__}")
    {"save": save, "load": load}[sys.argv[1]](pathlib.Path(sys.argv[2]))
