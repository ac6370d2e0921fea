/* The endings of files that are models, and the names by which folders open those of PyTorch. */
#include "model/model_endings.h"

#include <stddef.h>
#include <string.h>

const char *const model_endings[] = {".safetensors", ".gguf", ".npz",  ".npy", ".bin",
                                     ".pt",          ".pth",  ".ckpt", NULL};

/* Of these, the endings that other programs use too. */
static const char *const shared_endings[] = {".bin", ".pt", ".pth", ".ckpt", NULL};

bool has_ending(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0;
}

static bool has_one_of(const char *name, const char *const *endings) {
    for (; *endings; endings++)
        if (has_ending(name, *endings))
            return true;
    return false;
}

bool has_model_ending(const char *name) {
    return has_one_of(name, model_endings);
}

bool has_shared_ending(const char *name) {
    return has_one_of(name, shared_endings);
}

bool is_usual_model_name(const char *name) {
    static const char *const stems[] = {"pytorch_model",           "diffusion_pytorch_model",
                                        "open_clip_pytorch_model", "pytorch_lora_weights",
                                        "adapter_model",           "consolidated"};
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
        size_t len = strlen(stems[i]);
        if (strncmp(name, stems[i], len) == 0 && (name[len] == '.' || name[len] == '-'))
            return true;
    }
    return !has_shared_ending(name);
}
