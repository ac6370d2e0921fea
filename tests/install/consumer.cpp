// The installed tenmap.hpp, by the name and the flags that the package gives.
#include <cstdio>
#include <tenmap.hpp>

int main() {
    static const char json[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}   ";
    std::vector<unsigned char> file(8 + sizeof json - 1 + 8);
    file[0] = sizeof json - 1;
    std::memcpy(&file[8], json, sizeof json - 1);
    auto model = tenmap::try_open_memory(file.data(), file.size());
    if (!model)
        return std::fprintf(stderr, "%s\n", model.error().what()), 1;
    std::size_t tensors = 0;
    for (tenmap::tensor t : model->tensors())
        tensors += t.name() == "w" && t.try_read<double>()->size() == 2;
    return tensors == 1 && tenmap_version() == TENMAP_VERSION ? 0 : 1;
}
