/*
 * PyTorch checkpoints from before torch 1.6. The input is what follows the magic number. Also opens
 * what begins the file, as a download that was interrupted leaves it: it never opens.
 */
#include "torch.h"

enum { MOST_INPUT = 1 << 16 };

static tenmap_status open_status(const uint8_t *bytes, size_t size) {
    tenmap_model *model;
    tenmap_error error;
    fuzz_error_arm(&error);
    tenmap_status status = tenmap_open_memory(bytes, size, NULL, &model, &error);
    fuzz_error_check(&error, status);
    tenmap_close(model);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static torch_file file;
    if (size > MOST_INPUT)
        return 0;
    file.size = 0;
    TORCH_LITERAL(&file, TORCH_MAGIC);
    torch_put(&file, data, size);
    check_torch(file.at, file.size);
    if (open_status(file.at, file.size) == TENMAP_OK)
        for (size_t cut = 0; cut < file.size; cut += 1 + file.size / 16)
            CHECK(open_status(file.at, cut) != TENMAP_OK);
    return 0;
}
