// Tests include/tenmap.hpp, from a writer to views and back; every function of it is instantiated.
// Built as C++17 and C++20, with exceptions and without (-fno-exceptions leaves the try_ forms).
#include "tenmap.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#if defined(__has_include) && __cplusplus >= 202002L
#if __has_include(<span>)
#include <span>
#endif
#endif

namespace {

int failures = 0;

void check(bool holds, const char *what, int line) {
    if (!holds) {
        std::printf("line %d: %s\n", line, what);
        failures++;
    }
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)

static_assert(!std::is_copy_constructible_v<tenmap::model> &&
              std::is_nothrow_move_constructible_v<tenmap::model>);
static_assert(!std::is_copy_constructible_v<tenmap::writer> &&
              std::is_nothrow_move_constructible_v<tenmap::writer>);
static_assert(std::is_nothrow_copy_constructible_v<tenmap::error>); // exceptions must be
static_assert(sizeof(tenmap::tensor) == sizeof(void *) && sizeof(tenmap::bf16) == 2);
static_assert(tenmap::dtype_of<const float> == TENMAP_F32);

bool little_endian() {
    const std::uint16_t one = 1;
    unsigned char first;
    std::memcpy(&first, &one, 1);
    return first == 1;
}

// A model of two tensors and two pairs of metadata.
void write_and_give_up(const std::string &path) {
    const std::vector<float> w = {1, 2, 3, 4, 5, 6};
    const std::uint64_t shape[] = {2, 3}, none[] = {0};
    {
        tenmap::writer_options how;
        how.data_alignment = 64;
        auto made = tenmap::try_create(path, how);
        CHECK(made.has_value());
        tenmap::writer writer = std::move(*made);
        CHECK(writer.try_metadata("format", "pt").has_value());
        CHECK(writer.try_metadata("made by", "a test").has_value());
        auto id = writer.try_add("w", TENMAP_F32, shape);
        CHECK(id && *id == 0);
        CHECK(writer.try_add("empty", TENMAP_BF16, none).has_value());
        CHECK(writer.try_add("w", TENMAP_F32, shape).status() == TENMAP_ERR_ARGUMENT);
        CHECK(writer.try_write<float>(*id, w).has_value());
        CHECK(writer.try_commit().has_value() && !writer);
    }
    {
        auto given_up = tenmap::try_create(path + ".none");
        CHECK(given_up && given_up->get());
    } // no commit: no file
    CHECK(tenmap::try_open(path + ".none").status() == TENMAP_ERR_NOT_FOUND);
    CHECK(tenmap::try_open(path + ".none").error().remedy() == TENMAP_REMEDY_NONE);
}

void look(const tenmap::model &model) {
    std::string names, pairs;
    for (tenmap::tensor t : model.tensors())
        names +=
            std::string(t.name()) + ":" + t.dtype_name() + ":" + std::to_string(t.size()) + " ";
    CHECK(names == "w:F32:6 empty:BF16:0 " || names == "empty:BF16:0 w:F32:6 ");
    for (const tenmap::metadata_pair &pair : model.metadata())
        pairs += std::string(pair.key) + "=" + std::string(pair.value) + ";";
    CHECK(pairs == "format=pt;made by=a test;");
    CHECK(model.metadata("format") == std::string_view("pt") && !model.metadata("none"));
    std::size_t files = 0;
    for (const tenmap_shard &shard : model.shards())
        files += shard.tensor_count == 2;
    CHECK(files == 1 && model.missing().empty() &&
          model.missing().begin() == model.missing().end());
    auto all = model.tensors();
    CHECK(std::count_if(all.begin(), all.end(), [](tenmap::tensor t) { return t.size() > 0; }) ==
          1);
    CHECK(model.size() == 2 && model[0] && !model[2] && model.file_size() > 0);
    CHECK(model.find("w") && !model.find("v") && !model.find({}));
    auto missing = model.try_at("v");
    CHECK(!missing && std::strstr(missing.error().what(), "\"v\""));
}

void read(const tenmap::model &model) {
    tenmap::tensor w = *model.try_at("w");
    CHECK(w.shape().size() == 2 && w.shape()[1] == 3 && w->rank == 2 && w.size_bytes() == 24);
    if (little_endian()) {
        auto view = w.try_view<float>();
        CHECK(view && view->size() == 6 && (*view)[5] == 6 && view->data() == w->data);
        float sum = 0;
        for (float x : *view)
            sum += x;
        CHECK(sum == 21);
#if defined(__cpp_lib_span)
        std::span<const float> standard = *view;
        CHECK(standard.size() == 6);
#endif
        // The element type is checked: these bytes are no integers, and no BF16.
        CHECK(w.try_view<std::int32_t>().status() == TENMAP_ERR_DTYPE);
        CHECK(w.try_view<std::int32_t>().error().remedy() == TENMAP_REMEDY_READ);
        CHECK(w.try_view<tenmap::bf16>().status() == TENMAP_ERR_DTYPE);
    }
    auto half = w.try_read<tenmap::bf16>();
    CHECK(half && half->size() == 6 && (*half)[0] == tenmap::bf16{0x3f80});
    double two[2] = {0, 0};
    CHECK(w.try_read<double>(4, two).has_value() && two[1] == 6);
    CHECK(w.try_read<double>(5, two).status() == TENMAP_ERR_RANGE);
    const std::uint64_t begin[] = {0, 1}, end[] = {2, 2};
    CHECK(w.try_read_slice<double>(begin, end, two).has_value() && two[0] == 2 && two[1] == 5);
    CHECK(w.try_read_slice<double>({begin, 1}, {end, 1}, two).status() == TENMAP_ERR_ARGUMENT);
    CHECK(tenmap::tensor().try_view<float>().status() == TENMAP_ERR_ARGUMENT);
    CHECK(!tenmap::tensor().try_read<float>());
    const float numbers[] = {1.5f, -2};
    tenmap::f16 halves[2];
    CHECK(tenmap::try_convert<tenmap::f16, float>(halves, numbers) && halves[1].bits == 0xc000);
    CHECK(!tenmap::try_convert<tenmap::f16, float>({halves, 1}, numbers));
}

void load(const tenmap::model &model) {
    std::vector<float> dst(6);
    tenmap_request one = {};
    one.tensor = model.find("w").get();
    one.as = tenmap::dtype_of<float>;
    one.dst = dst.data();
    one.dst_bytes = dst.size() * sizeof dst[0];
    CHECK(model.try_load({&one, 1}).has_value() && dst[5] == 6);
    std::uint64_t seen = 0;
    auto watch = [&seen](std::uint64_t done, std::uint64_t) { return seen = done, 0; };
    CHECK(model.try_load({&one, 1}, tenmap::load_options(), watch).has_value() && seen == 24);
    auto stop = [](std::uint64_t, std::uint64_t) { return 1; };
    CHECK(model.try_load({&one, 1}, tenmap::load_options(), stop).status() == TENMAP_ERR_CANCELLED);
    CHECK(model.try_advise(TENMAP_ADVISE_POPULATE, model.find("w")).has_value());
    CHECK(model.try_advise(1000).status() == TENMAP_ERR_ARGUMENT);
    CHECK(model.try_advise_range(TENMAP_ADVISE_PREFETCH, model.find("w"), 4, 8).has_value());
    CHECK(model.try_advise_range(TENMAP_ADVISE_PREFETCH, model.find("w"), 4, 1 << 20).status() ==
          TENMAP_ERR_RANGE);
    auto print = tenmap::try_fingerprint(model, TENMAP_FINGERPRINT_VALUES);
    CHECK(print && (*print)[16] == 0);
    CHECK(!tenmap::try_fingerprint(model, 2));
    auto stats = tenmap::try_measure(model.find("w"));
    CHECK(stats && stats->max == 6);
    CHECK(!tenmap::try_measure(tenmap::tensor()));
}

void take(const tenmap::model &model) {
    tenmap::span<const float> w, none;
    tenmap::span<const double> wide;
    tenmap::wants wants;
    wants.add(w, "w", 0, {2, 3});
    wants.add(none, "layers.%u.w", TENMAP_WANT_LAYER(3) | TENMAP_WANT_OPTIONAL);
    {
        auto taken = wants.try_take(model);
        CHECK(taken && w.size() == 6 && w[5] == 6 && none.empty());
        CHECK(taken && little_endian() == !*taken); // a view, so no arena
    }
    wants.add(wide, "w");
    auto taken = wants.try_take(model);
    CHECK(wants.size() == 3 && taken && *taken && wide.size() == 6 && wide[5] == 6);
    wants.add(none, "v");
    auto refused = wants.try_take(model);
    CHECK(refused.status() == TENMAP_ERR_NOT_FOUND && refused.error().index() == 3 && wide[5] == 6);
}

// Every operation of a derivation, with values that are computed by hand: w is {1 2 3; 4 5 6}.
void derive(const tenmap::model &model) {
    tenmap::tensor w = model.find("w");
    tenmap::term b = tenmap::term(w).slice({0, 0}, {2, 1}),
                 a = tenmap::term(w).slice({1, 0}, {2, 3});
    tenmap::derivation d;
    d.add("sum", w + w - 0.5 * w);
    d.add("lora", w + 2.0 * tenmap::matmul(b, a));
    d.add("product", tenmap::matmul(0.5 * b, a), TENMAP_F64);
    d.add("halved", 0.5 * tenmap::term(w));
    d.add("turned", tenmap::expression(w).permute({1, 0}).reshape({6}));
    d.add("joined", tenmap::concat({w, b}, 1));
    d.add("stacked", tenmap::stack({w, w}).permute({2, 0, 1}));
    d.add("rows", tenmap::term(w).reshape({3, 2}).slice({1, 0}, {3, 2}).transpose());
    d.add_rest(model);
    CHECK(d.size() == 10);
    auto derived = d.try_derive();
    CHECK(derived && derived->size() == 10 && derived->find("empty"));
    if (!derived)
        return;
    auto values = [&](const char *name) { return *derived->find(name).try_read<double>(); };
    using doubles = std::vector<double>;
    CHECK(values("sum") == doubles({1.5, 3, 4.5, 6, 7.5, 9}));
    CHECK(values("lora") == doubles({9, 12, 15, 36, 45, 54}));
    CHECK(values("product") == doubles({2, 2.5, 3, 8, 10, 12}));
    CHECK(derived->find("product").dtype() == TENMAP_F64);
    CHECK(values("halved") == doubles({0.5, 1, 1.5, 2, 2.5, 3}));
    CHECK(values("turned") == doubles({1, 4, 2, 5, 3, 6}));
    CHECK(values("joined") == doubles({1, 2, 3, 1, 4, 5, 6, 4}));
    CHECK(values("stacked") == doubles({1, 4, 1, 4, 2, 5, 2, 5, 3, 6, 3, 6}));
    CHECK(values("rows") == doubles({3, 5, 4, 6}));
    CHECK(values("w") == doubles({1, 2, 3, 4, 5, 6}) && derived->find("w")->data == w->data);
}

void derive_wrongly(const tenmap::model &model) {
    tenmap::tensor w = model.find("w");
    const tenmap::expression wrong[] = {
        tenmap::concat({w, w}) + w,
        w + w + tenmap::matmul(w, w),
        tenmap::term(w).slice({0}, {1}),
        tenmap::expression(w).permute({0}),
        w + model.find("none"),
        0.0 * tenmap::expression(w),
        tenmap::concat({2.0 * tenmap::term(w)}),
        tenmap::concat({}),
    };
    for (const tenmap::expression &each : wrong) {
        tenmap::derivation d;
        d.add("fine", w);
        d.add("wrong one", each);
        auto refused = d.try_derive();
        CHECK(refused.status() == TENMAP_ERR_ARGUMENT && refused.error().index() == 1);
        CHECK(std::strstr(refused.error().what(), "\"wrong one\""));
    }
    CHECK(tenmap::derivation().try_derive().status() == TENMAP_ERR_ARGUMENT);
}

void inspect(const std::string &path) {
    std::size_t found = 0, errors = 0;
    auto count = [&](const tenmap_finding &f) {
        found++;
        errors += f.severity == TENMAP_FINDING_ERROR;
    };
    CHECK(tenmap::try_check(path, count).has_value() && found > 0 && errors == 0);
    CHECK(tenmap::try_check(path + ".none", count).status() == TENMAP_ERR_NOT_FOUND);
    CHECK(tenmap::try_open_memory("short", 5).status() == TENMAP_ERR_FORMAT);
    CHECK(tenmap::try_open_fd(-1).status() == TENMAP_ERR_ARGUMENT);
    tenmap::options how;
    how.backend = TENMAP_BACKEND_READ;
    auto opened = tenmap::try_open(path, how);
    CHECK(opened && !(*opened).find("w")->data);
    CHECK(opened && opened->find("w").try_read<float>()->at(2) == 3);
    tenmap::model taken(opened->release());
    CHECK(!*opened && taken && taken.size() == 2);
    taken.close();
    CHECK(!taken && taken.size() == 0 && taken.tensors().empty());
}

#if TENMAP_EXCEPTIONS

template <class F> tenmap_status thrown(F &&call) {
    try {
        call();
    } catch (const tenmap::error &e) {
        return e.what()[0] ? e.status() : TENMAP_OK;
    }
    return TENMAP_OK;
}

void with_exceptions(const std::string &path) {
    {
        tenmap::writer writer = tenmap::create(path);
        writer.metadata("format", "pt");
        std::size_t a = writer.add("a", TENMAP_F32, {2}), b = writer.add("b", TENMAP_BF16, {2});
        writer.add("odd", TENMAP_U8, {0});
        const std::vector<float> values = {1, 2};
        writer.write(a, values);
        auto source = tenmap::open_memory("\x02\0\0\0\0\0\0\0{}", 10);
        CHECK(thrown([&] { writer.copy(b, source.find("none")); }) == TENMAP_ERR_ARGUMENT);
        CHECK(thrown([&] { writer.write(a, values); }) != TENMAP_OK); // bytes come once
        writer.write<tenmap::bf16>(b, std::vector<tenmap::bf16>{{0x3f80}, {0x4000}});
        writer.commit();
    }
    tenmap::model model = tenmap::open(path);
    CHECK(model.at("b").read<float>() == std::vector<float>({1, 2}));
    if (little_endian())
        CHECK(model.at("a").view<float>()[1] == 2);
    CHECK(tenmap::measure(model.at("a")).mean == 1.5);
    {
        tenmap::derivation d;
        d.add("a", model.at("a") + 2.0 * tenmap::expression(model.at("b")));
        CHECK(d.derive().at("a").read<float>() == std::vector<float>({3, 6}));
        CHECK(thrown([&] { tenmap::derive({}); }) == TENMAP_ERR_ARGUMENT);
        CHECK(thrown([&] { tenmap::derivation().derive(); }) == TENMAP_ERR_ARGUMENT);
    }
    CHECK(tenmap::fingerprint(model) == tenmap::fingerprint(model));
    CHECK(thrown([&] { model.at("c"); }) == TENMAP_ERR_NOT_FOUND);
    CHECK(thrown([&] { model.at("a").view<double>(); }) == TENMAP_ERR_DTYPE);
    CHECK(thrown([&] { tenmap::open(path + ".none"); }) == TENMAP_ERR_NOT_FOUND);
    CHECK(thrown([&] { model.advise(1000); }) == TENMAP_ERR_ARGUMENT);
    CHECK(thrown([&] { tenmap::open_fd(-1); }) == TENMAP_ERR_ARGUMENT);
    float minus_two = -2;
    tenmap::f16 narrowed = {0};
    tenmap::convert<tenmap::f16, float>({&narrowed, 1}, {&minus_two, 1});
    CHECK(narrowed.bits == 0xc000);
    CHECK(thrown([&] {
              tenmap::convert<tenmap::f16, float>({&narrowed, 1}, {});
          }) == TENMAP_ERR_ARGUMENT);
    auto ignored = [](const tenmap_finding &) {};
    tenmap::check(path, ignored);
    CHECK(thrown([&] { tenmap::check(path + ".none", ignored); }) == TENMAP_ERR_NOT_FOUND);
    // What the caller's functions throw does not pass through the library, but still reaches the
    // caller.
    std::size_t calls = 0;
    try {
        (void)tenmap::try_check(path, [&](const tenmap_finding &) { calls++, throw 7; });
        CHECK(calls > 99); // not reached
    } catch (int number) {
        CHECK(number == 7 && calls == 1);
    }
    float dst[2];
    tenmap_request one = {};
    one.tensor = model.at("a").get();
    one.dst = dst;
    one.dst_bytes = sizeof dst;
    try {
        model.load({&one, 1}, {}, [](std::uint64_t, std::uint64_t) -> int { throw 8; });
        CHECK(calls > 99); // not reached
    } catch (int number) {
        CHECK(number == 8);
    }
    tenmap::wants wants;
    tenmap::span<const tenmap::f16> half;
    wants.add(half, "a", 0, {2});
    tenmap::arena arena = wants.take(model);
    CHECK(arena && half[1].bits == 0x4000);
    wants.add(half, "a", 0, {3});
    CHECK(thrown([&] { wants.take(model); }) == TENMAP_ERR_RANGE);
    model.load({&one, 1});
    CHECK(dst[1] == 2);
}

#endif

} // namespace

int main() {
    // In the working directory, apart from the other builds of this program.
    const std::string path = "use_hpp-" + std::to_string(__cplusplus) +
                             (TENMAP_EXCEPTIONS ? "" : "-plain") + ".safetensors";
    write_and_give_up(path);
    {
        auto opened = tenmap::try_open(path);
        CHECK(opened.has_value());
        tenmap::model model = std::move(*opened); // what it lends stays where it is
        look(model);
        read(model);
        load(model);
        derive(model);
        derive_wrongly(model);
        CHECK(model.try_detach().has_value());
        take(model);
    }
    inspect(path);
#if TENMAP_EXCEPTIONS
    with_exceptions(path);
#endif
    std::remove(path.c_str());
    std::printf("C++ %ld, %s exceptions: %s\n", static_cast<long>(__cplusplus),
                TENMAP_EXCEPTIONS ? "with" : "without", failures ? "failed" : "passed");
    return failures > 0;
}
