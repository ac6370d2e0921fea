/* Refuses names of outputs that promise another format than what is written. */
#include "output/output_formats.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "model/model_endings.h"
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
    {".bz2", "bzip2"},
    {".tgz", "tar"},
    {".7z", "7-Zip"},
    {".json", "JSON"},
    {".yaml", "YAML"},
    {".yml", "YAML"},
    {".txt", "text"},
    {".md", "Markdown"},
    {".csv", "CSV"},
    {".tsv", "TSV"},
    {".html", "HTML"},
    {".svg", "SVG"},
};

static bool ends_in(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcasecmp(path + n - m, ending) == 0;
}

/* The format that the name promises; NULL: it promises none of these. */
static const char *promised_format(const char *path) {
    for (size_t i = 0; i < sizeof other_formats / sizeof other_formats[0]; i++)
        if (ends_in(path, other_formats[i].ending))
            return other_formats[i].format;
    return NULL;
}

int check_page_name(const char *path, const char *format) {
    const char *promised = ends_in(path, ".safetensors") ? "SafeTensors" : promised_format(path);
    if (!promised || strcmp(promised, format) == 0)
        return EXIT_FINE;
    return fail(EXIT_USAGE, "the ending of '%s' says %s, but this file would be %s", path, promised,
                format);
}

int check_output_name(const output_settings *out) {
    /* choose_target refuses the names of indexes, and says what to name instead. */
    if (!out->path || names_folder(out->path) || has_ending(out->path, ".index.json"))
        return EXIT_FINE;
    if (ends_in(out->path, ".safetensor"))
        return fail(EXIT_USAGE, "'%s' ends in '.safetensor'; did you mean '.safetensors'?",
                    out->path);
    const char *promised = promised_format(out->path);
    if (promised)
        return fail(EXIT_USAGE,
                    "the ending of '%s' says %s, but only SafeTensors can be written: choose a "
                    "name that ends in .safetensors, or a folder",
                    out->path, promised);
    return EXIT_FINE;
}
