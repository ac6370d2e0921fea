// Includes the package's C++ header, and opens a model that does not exist.
#include <iostream>

#include <tenmap.hpp>

int main() {
    auto model = tenmap::try_open("none");
    std::cout << model.error().what() << '\n';
    return model.status() != TENMAP_ERR_NOT_FOUND;
}
