// The header used from C++11: types, enums as flags, the INIT macro, RAII around the handle.
#include "tenmap.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

static_assert(sizeof(tenmap_error) == 512, "the error struct is frozen");

struct closer {
    void operator()(tenmap_model *m) const { tenmap_close(m); }
};

int main() {
    const char json[] = "{\"w\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[0,4]}}";
    std::vector<unsigned char> file(8 + sizeof json - 1 + 4);
    file[0] = sizeof json - 1;
    std::memcpy(&file[8], json, sizeof json - 1);
    const unsigned char one_two[] = {0x80, 0x3f, 0x00, 0x40};
    std::memcpy(&file[8 + sizeof json - 1], one_two, 4);

    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_LENIENT | TENMAP_OPEN_PARTIAL;
    tenmap_model *raw = nullptr;
    tenmap_error error;
    if (tenmap_open_memory(file.data(), file.size(), &options, &raw, &error) != TENMAP_OK) {
        std::fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    std::unique_ptr<tenmap_model, closer> model(raw);
    const tenmap_tensor *w = tenmap_find(model.get(), "w");
    float values[2] = {0, 0};
    tenmap_status status =
        tenmap_read(w, 0, w->nelems, TENMAP_F32, values, sizeof values, 0, &error);
    return status == TENMAP_OK && values[0] == 1.0f && values[1] == 2.0f ? 0 : 1;
}
