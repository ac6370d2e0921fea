"""Times GGUF with the Python package `gguf`:

        gguf_python.py make FILE          writes a model of 1,000 tensors and a vocabulary of
    256,000
                                          strings
        gguf_python.py open FILE          the minimum of three times to read its header with
    GGUFReader
        gguf_python.py blocks             the rate at which it dequantizes to F32, by type

All in processor time, as in bench/gguf.c.
"""

import sys
import time

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize


def make(path):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["word%d" % i for i in range(256000)])
    data = np.zeros((4, 32), np.float32)
    for i in range(1000):
        writer.add_tensor("blk.%d.ffn_down.weight" % i, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def open_file(path):
    times = []
    for _ in range(3):
        begin = time.process_time()
        gguf.GGUFReader(path)
        times.append(time.process_time() - begin)
    print("gguf open: least %.1f us" % (min(times) * 1e6))


def blocks():
    for name in ("Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "MXFP4"):
        kind = gguf.GGMLQuantizationType[name]
        elements, size = GGML_QUANT_SIZES[kind]
        raw = np.full(((16 << 20) // 4 // elements, size), 0x2b, np.uint8)
        best = 1e9
        for _ in range(3):
            begin = time.process_time()
            out = dequantize(raw, kind)
            best = min(best, time.process_time() - begin)
        print("gguf %-6s -> F32: %.3f GB/s written" % (name, out.size * 4 / best / 1e9))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    elif sys.argv[1] == "open":
        open_file(sys.argv[2])
    else:
        blocks()
