"""Times the first token of a GGUF model with llama-cpp-python, for a prompt of one token. Prints
the same as llama_transformers.py.

    llama_cpp_python.py FILE THREADS
"""
import sys
import time

from llama_transformers import since_start


def main():
    import llama_cpp
    import numpy

    path, threads = sys.argv[1], int(sys.argv[2])
    model = llama_cpp.Llama(path, n_ctx=64, n_batch=32, n_threads=threads, n_threads_batch=threads,
                            logits_all=False, verbose=False)

    def token(ids):
        model.eval(ids)
        return int(numpy.argmax(numpy.ctypeslib.as_array(llama_cpp.llama_get_logits(model.ctx), (model.n_vocab(),))))

    first = token([1])
    took = since_start()
    begin = time.monotonic()
    second = token([first])
    print("%.1f %.1f %d %d" % (took * 1e3, (time.monotonic() - begin) * 1e3, first, second))


if __name__ == "__main__":
    main()
