"""Writes the model of examples/random.c as GGUF, with the same BF16 weights, for engines on ggml.

    llama_gguf.py FOLDER FILE
"""
import json
import sys

import gguf
import numpy

NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def ggml_name(name):
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, rest = name.split(".", 3)
    part, _, kind = rest.rpartition(".")
    return "blk.%s.%s.%s" % (layer, NAMES[part], kind)


def main():
    folder, path = sys.argv[1:]
    with open(folder + "/config.json") as file:
        config = json.load(file)
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")  # only ids are needed
    data = numpy.memmap(folder + "/model.safetensors", dtype=numpy.uint8, mode="r")
    length = int(data[:8].view("<u8")[0])
    header = json.loads(bytes(data[8:8 + length]))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        if len(entry["shape"]) == 1:  # ggml stores vectors as F32
            values = (data[begin:end].view("<u2").astype("<u4") << 16).view("<f4")
            writer.add_tensor(ggml_name(name), values)
        else:
            rows = data[begin:end].reshape(entry["shape"][0], entry["shape"][1] * 2)
            writer.add_tensor(ggml_name(name), rows, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
