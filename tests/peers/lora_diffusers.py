"""The part of lora_peft.py that compares `tenmap lora` with diffusers' loaders and fuse_lora."""
import os

import torch
from safetensors.torch import load_file, save_file


def tiny_unet(diffusers):
    torch.manual_seed(1)
    return diffusers.UNet2DConditionModel(
        block_out_channels=(32, 64), layers_per_block=1, sample_size=16, in_channels=4, out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32, attention_head_dim=8, norm_num_groups=8)


def tiny_flux(diffusers):
    torch.manual_seed(1)
    return diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=[4, 4, 8])


def factors(model, names, rank, convolutions=False):
    """Random factors by module."""
    torch.manual_seed(2)
    out = {}
    for name, module in model.named_modules():
        if not any(name.endswith(end) for end in names):
            continue
        if isinstance(module, torch.nn.Linear):
            out[name] = (torch.randn(rank, module.in_features) * 0.1, torch.randn(module.out_features, rank) * 0.1)
        elif isinstance(module, torch.nn.Conv2d) and convolutions:
            shape = (rank, module.in_channels, *module.kernel_size)
            out[name] = (torch.randn(shape) * 0.1, torch.randn(module.out_channels, rank, 1, 1) * 0.1)
    assert out
    return out


def compare_dialect(main, what, load, mixin, into, adapter, metadata=None):
    """`load` makes the base in a dtype; `into` is the mixin's loader for it."""
    folder = os.path.join(main.FOLDER, what.replace(" ", "-"))
    os.makedirs(folder)
    load(torch.float32).save_pretrained(folder + "/base")
    save_file(adapter, folder + "/adapter.safetensors", metadata)
    main.run(folder + "/base", folder + "/adapter.safetensors", "-o", folder + "/out", "-q")

    def fused(dtype):
        model = load(dtype)
        state = {key: value.to(dtype) if key.split(".")[-1] != "alpha" else value for key, value in adapter.items()}
        converted = mixin.lora_state_dict(state)
        alphas = converted[1] if isinstance(converted, tuple) else None
        state = converted[0] if isinstance(converted, tuple) else converted
        getattr(mixin, into)(state, alphas, model)
        model.fuse_lora()
        model.unload_lora()
        return model.state_dict()

    exact, theirs = fused(torch.float64), fused(torch.float32)
    got = load_file(folder + "/out/model.safetensors")
    changed = main.changed_names(load(torch.float32).state_dict(), exact)
    assert len(changed) * 2 <= len(adapter)
    main.compare(what, got, exact, theirs, changed)


def with_unet(main, diffusers):
    from diffusers.loaders import StableDiffusionLoraLoaderMixin as mixin
    state = tiny_unet(diffusers).state_dict()

    def load(dtype):
        model = tiny_unet(diffusers)
        model.load_state_dict(state)
        return model.to(dtype)

    attention = ["to_q", "to_k", "to_v", "to_out.0"]
    more = attention + ["ff.net.0.proj", "ff.net.2", "proj_in", "proj_out", "conv1", "conv2", "conv_shortcut"]
    linear = factors(tiny_unet(diffusers), attention, 3)
    every = factors(tiny_unet(diffusers), more, 3, convolutions=True)

    kohya = {}
    for name, (a, b) in every.items():
        stem = "lora_unet_" + name.replace(".", "_")
        kohya.update({stem + ".lora_down.weight": a, stem + ".lora_up.weight": b, stem + ".alpha": torch.tensor(2.0)})
    compare_dialect(main, "UNet kohya", load, mixin, "load_lora_into_unet", kohya)
    peft = {"unet.%s.lora_%s.weight" % (name, k): v for name, pair in every.items() for k, v in zip("AB", pair)}
    compare_dialect(main, "UNet PEFT keys", load, mixin, "load_lora_into_unet", peft)
    middle = {"unet.%s.lora.%s.weight" % (name, k): v for name, pair in linear.items()
              for k, v in zip(("down", "up"), pair)}
    compare_dialect(main, "UNet diffusers", load, mixin, "load_lora_into_unet", middle)
    old = {}
    for name, (a, b) in linear.items():
        before, last = name.replace("to_out.0", "to_out").rsplit(".", 1)
        old["unet.%s.processor.%s_lora.down.weight" % (before, last)] = a
        old["unet.%s.processor.%s_lora.up.weight" % (before, last)] = b
    compare_dialect(main, "UNet old diffusers", load, mixin, "load_lora_into_unet", old)


def with_flux(main, diffusers):
    from diffusers.loaders import FluxLoraLoaderMixin as mixin
    state = tiny_flux(diffusers).state_dict()

    def load(dtype):
        model = tiny_flux(diffusers)
        model.load_state_dict(state)
        return model.to(dtype)

    names = ["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "ff.net.2", "norm1.linear"]
    pairs = factors(tiny_flux(diffusers), names, 4)
    keys = {"transformer.%s.lora_%s.weight" % (name, k): v for name, pair in pairs.items() for k, v in zip("AB", pair)}
    compare_dialect(main, "Flux transformer", load, mixin, "load_lora_into_transformer", keys)


def compare_all(main, diffusers):
    print("diffusers %s" % diffusers.__version__)
    diffusers.utils.logging.set_verbosity_error()
    with_unet(main, diffusers)
    with_flux(main, diffusers)
