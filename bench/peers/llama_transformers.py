"""Times the first token of a model with transformers on torch, for a prompt of one token.

    llama_transformers.py FOLDER THREADS DTYPE

Prints the milliseconds from the start of the process to the first token, then those of the second
token, with everything in memory, and then the two ids.
"""
import os
import sys
import time


def since_start():
    """Returns seconds since the process start, which the system records in units of 1/100 s."""
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def main():
    folder, threads, dtype = sys.argv[1:]
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(int(threads))
    with torch.inference_mode():
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
        out = model(torch.tensor([[1]]), use_cache=True)
        first = int(out.logits[0, -1].argmax())
        took = since_start()
        begin = time.monotonic()
        out = model(torch.tensor([[first]]), past_key_values=out.past_key_values, use_cache=True)
        second = int(out.logits[0, -1].argmax())
        print("%.1f %.1f %d %d" % (took * 1e3, (time.monotonic() - begin) * 1e3, first, second))


if __name__ == "__main__":
    main()
