// The README's example, and a little more, in C++17: lists what is in a model, and prints a tensor
// as floats.
#include <cstdio>
#include <tenmap.hpp>

int main(int argc, char **argv) try {
    if (argc < 2)
        return std::fprintf(stderr, "usage: modern MODEL [TENSOR]\n"), 1;
    tenmap::model model = tenmap::open(argv[1]); // closed at the end of this block
    for (tenmap::tensor t : model.tensors())
        if (argc == 2)
            std::printf("%-8s %.*s\n", t.dtype_name(), static_cast<int>(t.name().size()),
                        t.name().data());
    if (argc == 2)
        return 0;

    tenmap::tensor weight = model.at(argv[2]);
    double sum = 0;
    if (auto view = weight.try_view<float>()) // F32, mapped and aligned: no copy
        for (float x : *view)
            sum += x;
    else // anything else: converted
        for (float x : weight.read<float>())
            sum += x;
    std::printf("%g\n", sum);
} catch (const tenmap::error &e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
}
