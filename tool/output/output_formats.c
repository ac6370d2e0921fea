/* Refuses names of outputs that promise a format which the tool does not write. */
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "output/output_target.h"

/* Endings of files in formats that are not written. Any other ending may be a part of a name. */
static const struct other_format {
    const char *ending, *format;
} other_formats[] = {
    {".gguf", "GGUF"},
    {".ggml", "GGML"},
    {".bin", "PyTorch"},
    {".pt", "PyTorch"},
    {".pth", "PyTorch"},
    {".ckpt", "PyTorch or TensorFlow"},
    {".pte", "ExecuTorch"},
    {".pkl", "pickle"},
    {".pickle", "pickle"},
    {".onnx", "ONNX"},
    {".npz", "numpy"},
    {".npy", "numpy"},
    {".h5", "HDF5"},
    {".hdf5", "HDF5"},
    {".keras", "Keras"},
    {".msgpack", "Flax"},
    {".tflite", "TensorFlow Lite"},
    {".pb", "TensorFlow"},
    {".mlmodel", "Core ML"},
    {".mlpackage", "Core ML"},
    {".nemo", "NeMo"},
    {".pdparams", "Paddle"},
    {".engine", "TensorRT"},
    {".llamafile", "llamafile"},
    {".parquet", "Parquet"},
    {".tar", "tar"},
    {".zip", "zip"},
    {".gz", "gzip"},
    {".xz", "xz"},
    {".zst", "zstd"},
};

static bool ends_in(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcasecmp(path + n - m, ending) == 0;
}

int check_output_name(const output_settings *out) {
    if (!out->path || names_folder(out->path))
        return EXIT_FINE;
    if (ends_in(out->path, ".safetensor"))
        return fail(EXIT_USAGE, "'%s' ends in '.safetensor'; did you mean '.safetensors'?",
                    out->path);
    for (size_t i = 0; i < sizeof other_formats / sizeof other_formats[0]; i++)
        if (ends_in(out->path, other_formats[i].ending))
            return fail(EXIT_USAGE,
                        "the ending of '%s' says %s, but only SafeTensors can be written: choose a "
                        "name that ends in .safetensors, or a folder",
                        out->path, other_formats[i].format);
    return EXIT_FINE;
}
