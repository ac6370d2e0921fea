// tenmap for C++17: models that close themselves, writers that clean up after themselves, views
// whose element type is checked, ranges to iterate over. Header only. It calls only tenmap.h, and
// get() of every object returns its C handle, so you can mix the two.
//
// Every function that can fail has two forms: open() throws tenmap::error; try_open() returns a
// tenmap::result, which holds the value or the error, and never throws a tenmap::error. With
// -fno-exceptions (or TENMAP_NO_EXCEPTIONS) only the try_ forms exist. Functions that allocate in
// C++, such as read() into a std::vector, may throw std::bad_alloc in either form.
//
// Lifetimes are those of tenmap.h: tensors, spans, names, metadata and shards belong to their model
// and become invalid when it is closed. They stay valid when the model object is moved. The thread
// rules are those of tenmap.h.
#ifndef TENMAP_HPP
#define TENMAP_HPP

#include "tenmap.h"

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>
#if defined(__cplusplus) && __cplusplus > 202002L && defined(__has_include)
#if __has_include(<stdfloat>)
#include <stdfloat>
#endif
#endif

#if !defined(TENMAP_NO_EXCEPTIONS) && (defined(__cpp_exceptions) || defined(_CPPUNWIND))
#define TENMAP_EXCEPTIONS 1
#else
#define TENMAP_EXCEPTIONS 0
#endif

namespace tenmap {

// What went wrong: a status for programs, a message for people.
class error : public std::exception {
  public:
    error() noexcept { std::memset(&e_, 0, sizeof e_); }
    explicit error(const tenmap_error &e) noexcept : e_(e) {}
    error(tenmap_status status, const char *message) noexcept : error() {
        e_.status = status;
        std::strncpy(e_.message, message, sizeof e_.message - 1);
    }
    const char *what() const noexcept override { return e_.message; }
    tenmap_status status() const noexcept { return e_.status; } // TENMAP_ERR_*
    int os_error() const noexcept { return e_.os_error; }
    std::uint32_t remedy() const noexcept { return e_.remedy; } // TENMAP_REMEDY_*
    std::uint64_t offset() const noexcept { return e_.offset; }
    std::uint64_t index() const noexcept { return e_.index; }
    const tenmap_error &get() const noexcept { return e_; }
    tenmap_error *out() noexcept { return &e_; } // for calls of the C API

  private:
    tenmap_error e_;
};

// A value or an error. Use `*r` and `r->` only if there is a value; without one, value() throws the
// error.
template <class T> class [[nodiscard]] result {
  public:
    result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
    result(tenmap::error e) : held_(std::in_place_index<1>, e) {}
    bool has_value() const noexcept { return held_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    T &operator*() &noexcept { return *std::get_if<0>(&held_); }
    const T &operator*() const &noexcept { return *std::get_if<0>(&held_); }
    T &&operator*() &&noexcept { return std::move(*std::get_if<0>(&held_)); }
    T *operator->() noexcept { return std::get_if<0>(&held_); }
    const T *operator->() const noexcept { return std::get_if<0>(&held_); }
    // Call this only if there is no value.
    const tenmap::error &error() const noexcept { return *std::get_if<1>(&held_); }
    tenmap_status status() const noexcept { return has_value() ? TENMAP_OK : error().status(); }
#if TENMAP_EXCEPTIONS
    T value() && {
        if (!has_value())
            throw error();
        return std::move(**this);
    }
    const T &value() const & {
        if (!has_value())
            throw error();
        return **this;
    }
#endif

  private:
    std::variant<T, tenmap::error> held_;
};

template <> class [[nodiscard]] result<void> {
  public:
    result() noexcept : good_(true) {}
    result(tenmap::error e) noexcept : good_(false), error_(e) {}
    bool has_value() const noexcept { return good_; }
    explicit operator bool() const noexcept { return good_; }
    const tenmap::error &error() const noexcept { return error_; }
    tenmap_status status() const noexcept { return good_ ? TENMAP_OK : error_.status(); }
#if TENMAP_EXCEPTIONS
    void value() const {
        if (!good_)
            throw error_;
    }
#endif

  private:
    bool good_;
    tenmap::error error_;
};

// Contiguous elements: a pointer and a count, like C++20's std::span, to which it converts.
template <class T> class span {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using size_type = std::size_t;
    using iterator = T *;
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <
        class Range, class Data = decltype(std::declval<Range &>().data()),
        class = std::enable_if_t<!std::is_same_v<std::decay_t<Range>, span> &&
                                 std::is_convertible_v<std::remove_pointer_t<Data> (*)[], T (*)[]>>>
    constexpr span(Range &&range) noexcept : data_(range.data()), size_(range.size()) {}
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// Dtypes for which C++17 has no type, as their bits. To use a type of your own, specialize
// tenmap::element for it.
template <tenmap_dtype D, class Bits> struct raw {
    Bits bits;
    friend constexpr bool operator==(raw a, raw b) noexcept { return a.bits == b.bits; }
    friend constexpr bool operator!=(raw a, raw b) noexcept { return a.bits != b.bits; }
};
using boolean = raw<TENMAP_BOOL, std::uint8_t>; // a byte in a file need not be a valid C++ bool
using f16 = raw<TENMAP_F16, std::uint16_t>;
using bf16 = raw<TENMAP_BF16, std::uint16_t>;
using f8_e5m2 = raw<TENMAP_F8_E5M2, std::uint8_t>;
using f8_e4m3 = raw<TENMAP_F8_E4M3, std::uint8_t>;
using f8_e8m0 = raw<TENMAP_F8_E8M0, std::uint8_t>;
using f8_e4m3fnuz = raw<TENMAP_F8_E4M3FNUZ, std::uint8_t>;
using f8_e5m2fnuz = raw<TENMAP_F8_E5M2FNUZ, std::uint8_t>;

// The dtype of a C++ type. Types that have none do not compile.
template <class T> struct element;
template <tenmap_dtype D> struct element_is { static constexpr tenmap_dtype dtype = D; };
template <> struct element<std::int8_t> : element_is<TENMAP_I8> {};
template <> struct element<std::uint8_t> : element_is<TENMAP_U8> {};
template <> struct element<std::int16_t> : element_is<TENMAP_I16> {};
template <> struct element<std::uint16_t> : element_is<TENMAP_U16> {};
template <> struct element<std::int32_t> : element_is<TENMAP_I32> {};
template <> struct element<std::uint32_t> : element_is<TENMAP_U32> {};
template <> struct element<std::int64_t> : element_is<TENMAP_I64> {};
template <> struct element<std::uint64_t> : element_is<TENMAP_U64> {};
template <> struct element<float> : element_is<TENMAP_F32> {};
template <> struct element<double> : element_is<TENMAP_F64> {};
template <> struct element<std::complex<float>> : element_is<TENMAP_C64> {};
template <tenmap_dtype D, class Bits> struct element<raw<D, Bits>> : element_is<D> {};
#if defined(__STDCPP_FLOAT16_T__)
template <> struct element<std::float16_t> : element_is<TENMAP_F16> {};
#endif
#if defined(__STDCPP_BFLOAT16_T__)
template <> struct element<std::bfloat16_t> : element_is<TENMAP_BF16> {};
#endif
template <class T> inline constexpr tenmap_dtype dtype_of = element<std::remove_cv_t<T>>::dtype;

// The structs of tenmap.h, initialized to their defaults.
struct options : tenmap_options {
    options() noexcept : tenmap_options TENMAP_OPTIONS_INIT {}
};
struct load_options : tenmap_load_options {
    load_options() noexcept : tenmap_load_options TENMAP_LOAD_OPTIONS_INIT {}
};

// One tensor of a model, or none, as find() returns for an unknown name. It is only a pointer, so
// copies are cheap.
class tensor {
  public:
    constexpr tensor() noexcept = default;
    constexpr explicit tensor(const tenmap_tensor *t) noexcept : t_(t) {}
    constexpr explicit operator bool() const noexcept { return t_ != nullptr; }
    constexpr const tenmap_tensor *get() const noexcept { return t_; }
    constexpr const tenmap_tensor *operator->() const noexcept { return t_; }

    std::string_view name() const noexcept { return {t_->name, t_->name_len}; }
    tenmap_dtype dtype() const noexcept { return t_->dtype; }
    const char *dtype_name() const noexcept { return tenmap_dtype_name(t_->dtype); }
    span<const std::uint64_t> shape() const noexcept { return {t_->shape, t_->rank}; }
    std::uint64_t size() const noexcept { return t_->nelems; } // elements
    std::uint64_t size_bytes() const noexcept { return t_->nbytes; }

    // The elements in place, without a copy. They must have T's dtype, be aligned and mapped, and
    // the host must be little-endian.
    template <class T> result<span<const T>> try_view() const {
        error e;
        static_assert(std::is_trivially_copyable_v<T>);
        const void *data = tenmap_view(t_, dtype_of<T>, e.out());
        if (!data)
            return e;
        return span<const T>(static_cast<const T *>(data), static_cast<std::size_t>(t_->nelems));
    }

    // Elements [first, first + dst.size()), converted to T, on any backend.
    template <class T>
    result<void> try_read(std::uint64_t first, span<T> dst, std::uint32_t flags = 0) const {
        error e;
        if (tenmap_read(t_, first, dst.size(), dtype_of<T>, dst.data(), dst.size_bytes(), flags,
                        e.out()) != TENMAP_OK)
            return e;
        return {};
    }
    // All elements, converted to T.
    template <class T> result<std::vector<T>> try_read(std::uint32_t flags = 0) const {
        if (t_ && t_->nelems > std::vector<T>().max_size())
            return error(TENMAP_ERR_LIMIT, "the tensor has more elements than memory can hold");
        std::vector<T> all(t_ ? static_cast<std::size_t>(t_->nelems) : 0);
        result<void> done = try_read(0, span<T>(all), flags);
        if (!done)
            return done.error();
        return all;
    }
    // The block begin[d] <= i[d] < end[d], in row-major order.
    template <class T>
    result<void> try_read_slice(span<const std::uint64_t> begin, span<const std::uint64_t> end,
                                span<T> dst, std::uint32_t flags = 0) const {
        error e;
        if (t_ && (begin.size() != t_->rank || end.size() != t_->rank))
            return error(TENMAP_ERR_ARGUMENT, "a slice takes one pair of indices per dimension");
        if (tenmap_read_slice(t_, begin.data(), end.data(), dtype_of<T>, dst.data(),
                              dst.size_bytes(), flags, e.out()) != TENMAP_OK)
            return e;
        return {};
    }

#if TENMAP_EXCEPTIONS
    template <class T> span<const T> view() const {
        return try_view<T>().value();
    }
    template <class T> std::vector<T> read(std::uint32_t flags = 0) const {
        return try_read<T>(flags).value();
    }
    template <class T> void read(std::uint64_t first, span<T> dst, std::uint32_t flags = 0) const {
        try_read<T>(first, dst, flags).value();
    }
    template <class T>
    void read_slice(span<const std::uint64_t> begin, span<const std::uint64_t> end, span<T> dst,
                    std::uint32_t flags = 0) const {
        try_read_slice<T>(begin, end, dst, flags).value();
    }
#endif

  private:
    const tenmap_tensor *t_ = nullptr;
};

// One pair of a file's metadata.
struct metadata_pair {
    std::string_view key, value;
    std::uint32_t shard;
};

// The tensors, shards or pairs of a model as a range, for range-based loops and algorithms.
template <class Value, class Owner, Value (*At)(const Owner *, std::size_t)> class listing {
  public:
    class iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Value;
        using difference_type = std::ptrdiff_t;
        using pointer = void;
        using reference = Value;
        iterator() noexcept = default;
        iterator(const Owner *of, std::size_t i) noexcept : of_(of), i_(i) {}
        Value operator*() const noexcept { return At(of_, i_); }
        iterator &operator++() noexcept { return ++i_, *this; }
        iterator operator++(int) noexcept { return {of_, i_++}; }
        friend bool operator==(iterator a, iterator b) noexcept { return a.i_ == b.i_; }
        friend bool operator!=(iterator a, iterator b) noexcept { return a.i_ != b.i_; }

      private:
        const Owner *of_ = nullptr;
        std::size_t i_ = 0;
    };
    listing(const Owner *of, std::size_t count) noexcept : of_(of), count_(count) {}
    std::size_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }
    Value operator[](std::size_t i) const noexcept { return At(of_, i); }
    iterator begin() const noexcept { return {of_, 0}; }
    iterator end() const noexcept { return {of_, count_}; }

  private:
    const Owner *of_;
    std::size_t count_;
};

namespace detail {

inline tensor tensor_at(const tenmap_model *m, std::size_t i) {
    return tensor(tenmap_at(m, i));
}
inline metadata_pair metadata_at(const tenmap_model *m, std::size_t i) {
    const tenmap_metadata *p = tenmap_metadata_at(m, i);
    return {{p->key, p->key_len}, {p->value, p->value_len}, p->shard};
}
inline const tenmap_shard &shard_at(const tenmap_model *m, std::size_t i) {
    return *tenmap_shard_at(m, i);
}
inline const char *missing_at(const tenmap_model *m, std::size_t i) {
    return tenmap_missing_at(m, i);
}

struct close_model {
    void operator()(tenmap_model *m) const noexcept { tenmap_close(m); }
};

// The caller's functions must not throw through C code. What they throw is kept here until
// rethrow().
template <class F> struct callback {
    F &call;
#if TENMAP_EXCEPTIONS
    std::exception_ptr thrown = nullptr;
    template <class... A> auto operator()(A... a) noexcept -> decltype(call(a...)) {
        using R = decltype(call(a...));
        if (!thrown) {
            try {
                return call(a...);
            } catch (...) {
                thrown = std::current_exception();
            }
        }
        if constexpr (!std::is_void_v<R>)
            return R(1); // for progress: cancel
    }
    void rethrow() const {
        if (thrown)
            std::rethrow_exception(thrown);
    }
#else
    template <class... A> auto operator()(A... a) noexcept -> decltype(call(a...)) {
        return call(a...);
    }
    void rethrow() const noexcept {}
#endif
};

} // namespace detail

// An open model, which the destructor closes. Move-only. A default-constructed one behaves like a
// NULL model in C: it has no tensors.
class model {
  public:
    model() noexcept = default;
    explicit model(tenmap_model *taken) noexcept : m_(taken) {}
    explicit operator bool() const noexcept { return m_ != nullptr; }
    tenmap_model *get() const noexcept { return m_.get(); }
    tenmap_model *release() noexcept { return m_.release(); }
    void close() noexcept { m_.reset(); }

    std::size_t size() const noexcept { return tenmap_count(m_.get()); }
    tensor operator[](std::size_t i) const noexcept { return tensor(tenmap_at(m_.get(), i)); }
    const char *path() const noexcept { return tenmap_path(m_.get()); }
    std::uint64_t file_size() const noexcept { return tenmap_file_size(m_.get()); }

    // By exact name; an empty tensor if no tensor has it.
    tensor find(std::string_view name) const noexcept {
        return tensor(tenmap_find_n(m_.get(), name.data() ? name.data() : "", name.size()));
    }
    // The same for a tensor that must exist: otherwise the error names it.
    result<tensor> try_at(std::string_view name) const {
        tensor found = find(name);
        if (found)
            return found;
        std::string said = "no tensor is named \"" + std::string(name) + "\" in " + path();
        return error(TENMAP_ERR_NOT_FOUND, said.c_str());
    }

    using tensor_list = listing<tensor, tenmap_model, detail::tensor_at>;
    using metadata_list = listing<metadata_pair, tenmap_model, detail::metadata_at>;
    using shard_list = listing<const tenmap_shard &, tenmap_model, detail::shard_at>;
    using missing_list = listing<const char *, tenmap_model, detail::missing_at>;
    tensor_list tensors() const noexcept { return {m_.get(), size()}; } // in file order
    metadata_list metadata() const noexcept { return {m_.get(), tenmap_metadata_count(m_.get())}; }
    shard_list shards() const noexcept { return {m_.get(), tenmap_shard_count(m_.get())}; }
    missing_list missing() const noexcept { return {m_.get(), tenmap_missing_count(m_.get())}; }
    // The value in the first shard that has the key; NULL if none has it.
    const char *metadata(const char *key) const noexcept {
        return tenmap_metadata_get(m_.get(), key);
    }

    // tenmap_advise, about one tensor or about the whole model.
    result<void> try_advise(std::uint32_t advice, tensor of = tensor()) const {
        error e;
        if (tenmap_advise(m_.get(), of.get(), advice, e.out()) != TENMAP_OK)
            return e;
        return {};
    }
    // tenmap_advise_range, about some bytes of a tensor.
    static result<void> try_advise_range(std::uint32_t advice, tensor of, std::uint64_t first_byte,
                                         std::uint64_t bytes) {
        error e;
        if (tenmap_advise_range(of.get(), first_byte, bytes, advice, e.out()) != TENMAP_OK)
            return e;
        return {};
    }
    // tenmap_detach. Its callbacks are C functions and must not throw.
    result<void> try_detach(const tenmap_load_options &how = load_options()) {
        error e;
        if (tenmap_detach(m_.get(), &how, e.out()) != TENMAP_OK)
            return e;
        return {};
    }
    // tenmap_load. Its callbacks are C functions and must not throw.
    result<void> try_load(span<const tenmap_request> requests,
                          const tenmap_load_options &how = load_options()) const {
        error e;
        if (tenmap_load(m_.get(), requests.data(), requests.size(), &how, e.out()) != TENMAP_OK)
            return e;
        return {};
    }
    // The same with int progress(uint64_t done, uint64_t total), which cancels by returning nonzero
    // or by throwing.
    template <class F>
    result<void> try_load(span<const tenmap_request> requests, load_options how,
                          F &&progress) const {
        detail::callback<F> call{progress};
        how.ctx = &call;
        how.done = nullptr;
        how.progress = [](void *ctx, std::uint64_t done, std::uint64_t total) -> int {
            return (*static_cast<detail::callback<F> *>(ctx))(done, total);
        };
        result<void> r = try_load(requests, how);
        call.rethrow();
        return r;
    }

#if TENMAP_EXCEPTIONS
    tensor at(std::string_view name) const {
        return try_at(name).value();
    }
    void advise(std::uint32_t advice, tensor of = tensor()) const {
        try_advise(advice, of).value();
    }
    static void advise_range(std::uint32_t advice, tensor of, std::uint64_t first_byte,
                             std::uint64_t bytes) {
        try_advise_range(advice, of, first_byte, bytes).value();
    }
    void detach(const tenmap_load_options &how = load_options()) {
        try_detach(how).value();
    }
    void load(span<const tenmap_request> requests,
              const tenmap_load_options &how = load_options()) const {
        try_load(requests, how).value();
    }
    template <class F>
    void load(span<const tenmap_request> requests, const load_options &how, F &&progress) const {
        try_load(requests, how, std::forward<F>(progress)).value();
    }
#endif

  private:
    std::unique_ptr<tenmap_model, detail::close_model> m_;
};

// A file, an index or a folder, as in tenmap_open.
inline result<model> try_open(const std::string &path, const tenmap_options &how = options()) {
    error e;
    tenmap_model *m = nullptr;
    if (tenmap_open(path.c_str(), &how, &m, e.out()) != TENMAP_OK)
        return e;
    return model(m);
}
// The bytes still belong to you and must not change until the model is closed.
inline result<model> try_open_memory(const void *bytes, std::size_t size,
                                     const tenmap_options &how = options()) {
    error e;
    tenmap_model *m = nullptr;
    if (tenmap_open_memory(bytes, size, &how, &m, e.out()) != TENMAP_OK)
        return e;
    return model(m);
}
inline result<model> try_open_fd(int fd, const tenmap_options &how = options()) {
    error e;
    tenmap_model *m = nullptr;
    if (tenmap_open_fd(fd, &how, &m, e.out()) != TENMAP_OK)
        return e;
    return model(m);
}
// As tenmap_derive: the models of all terms must be closed after this one.
inline result<model> try_derive(span<const tenmap_derived> tensors) {
    error e;
    tenmap_model *m = nullptr;
    if (tenmap_derive(tensors.data(), tensors.size(), nullptr, &m, e.out()) != TENMAP_OK)
        return e;
    return model(m);
}
#if TENMAP_EXCEPTIONS
inline model derive(span<const tenmap_derived> tensors) {
    return try_derive(tensors).value();
}
inline model open(const std::string &path, const tenmap_options &how = options()) {
    return try_open(path, how).value();
}
inline model open_memory(const void *bytes, std::size_t size,
                         const tenmap_options &how = options()) {
    return try_open_memory(bytes, size, how).value();
}
inline model open_fd(int fd, const tenmap_options &how = options()) {
    return try_open_fd(fd, how).value();
}
#endif

class expression;

// One operand of a derived tensor: a tensor, taken as another shape, then a block of it, then
// transposed, in this order; times a factor.
class term {
  public:
    term(tensor of) noexcept : of_(of) {}
    term reshape(std::vector<std::uint64_t> shape) const {
        term made = *this;
        made.shape_ = std::move(shape);
        return made;
    }
    // begin[d] <= i[d] < end[d]
    term slice(std::vector<std::uint64_t> begin, std::vector<std::uint64_t> end) const {
        term made = *this;
        made.begin_ = std::move(begin);
        made.end_ = std::move(end);
        return made;
    }
    term transpose() const {
        term made = *this;
        made.flags_ ^= TENMAP_TERM_TRANSPOSED;
        return made;
    }
    term times(double factor) const {
        term made = *this;
        made.factor_ *= factor;
        return made;
    }

  private:
    friend class expression;
    friend expression matmul(term b, term a);
    friend class derivation;
    tensor of_;
    double factor_ = 1;
    std::optional<std::vector<std::uint64_t>> shape_, begin_, end_;
    std::uint32_t flags_ = 0;
};

// What a derived tensor is: one operation on terms, then an order of axes, then a shape. Operators
// make it of tensors, terms and each other:
//
//     base.at("w") + 0.8 * tenmap::matmul(lora.at("b"), lora.at("a"))
//
// An operation on the result of another one, such as a sum of concatenations, takes two
// derivations. derive() refuses it.
class expression {
  public:
    expression(tensor of) : terms_{term(of)} {}
    expression(term t) : terms_{std::move(t)} {}
    // Axis i becomes what was axis order[i], as in numpy.transpose.
    expression permute(std::vector<std::uint32_t> order) const {
        expression made = *this;
        made.nested_ |= made.order_.has_value() || made.shape_.has_value();
        made.order_ = std::move(order);
        return made;
    }
    expression reshape(std::vector<std::uint64_t> shape) const {
        expression made = *this;
        made.shape_ = std::move(shape);
        return made;
    }
    expression times(double factor) const {
        expression made = *this;
        made.become_sum();
        for (std::size_t i = 0; i < made.terms_.size(); i++)
            made.terms_[i].factor_ *= factor;
        for (std::size_t i = 0; i < made.pairs_.size(); i += 2) // the factor is that of the first
            made.pairs_[i].factor_ *= factor;
        return made;
    }
    // this + factor * other
    expression plus(const expression &other, double factor = 1) const {
        expression made = *this, with = other.times(factor);
        made.become_sum();
        made.nested_ |= with.nested_;
        made.terms_.insert(made.terms_.end(), with.terms_.begin(), with.terms_.end());
        made.pairs_.insert(made.pairs_.end(), with.pairs_.begin(), with.pairs_.end());
        if (!made.pairs_.empty())
            made.op_ = TENMAP_DERIVE_LOW_RANK;
        return made;
    }

  private:
    friend class derivation;
    friend expression matmul(term b, term a);
    friend expression concat(std::vector<term> terms, std::uint32_t axis);
    friend expression stack(std::vector<term> terms, std::uint32_t axis);
    expression(std::uint32_t op, std::vector<term> terms, std::uint32_t axis)
        : op_(op), axis_(axis), terms_(std::move(terms)) {}

    void become_sum() {
        nested_ |= order_.has_value() || shape_.has_value() || op_ == TENMAP_DERIVE_CONCAT ||
                   op_ == TENMAP_DERIVE_STACK;
        if (op_ == TENMAP_DERIVE_RENAME)
            op_ = TENMAP_DERIVE_SUM;
    }
    std::uint32_t op_ = TENMAP_DERIVE_RENAME, axis_ = 0;
    std::vector<term> terms_, pairs_; // B, A, B, A, ...
    std::optional<std::vector<std::uint32_t>> order_;
    std::optional<std::vector<std::uint64_t>> shape_;
    bool nested_ = false;
};

inline expression operator+(const expression &a, const expression &b) {
    return a.plus(b);
}
inline expression operator-(const expression &a, const expression &b) {
    return a.plus(b, -1);
}
inline expression operator*(double factor, const expression &of) {
    return of.times(factor);
}
inline term operator*(double factor, const term &of) {
    return of.times(factor);
}
inline term operator*(double factor, tensor of) {
    return term(of).times(factor);
}

// The product of two matrices, B @ A: alone, times a number, or in a sum. A term with more than two
// axes counts as a matrix of its first axis by all others.
inline expression matmul(term b, term a) {
    expression made(TENMAP_DERIVE_LOW_RANK, {}, 0);
    b.factor_ *= a.factor_;
    a.factor_ = 1;
    made.pairs_ = {std::move(b), std::move(a)};
    return made;
}
// The terms one after the other along an axis.
inline expression concat(std::vector<term> terms, std::uint32_t axis = 0) {
    return expression(TENMAP_DERIVE_CONCAT, std::move(terms), axis);
}
// The terms, of one shape, as the indexes of a new axis.
inline expression stack(std::vector<term> terms, std::uint32_t axis = 0) {
    return expression(TENMAP_DERIVE_STACK, std::move(terms), axis);
}

// The tensors of a derived model:
//
//     tenmap::derivation merging;
//     merging.add("w", base.at("w") + 0.8 * tenmap::matmul(lora.at("b"), lora.at("a")));
//     merging.add_rest(base);
//     tenmap::model merged = merging.derive();
//
// As tenmap_derive: the models of all terms must be closed after the derived one.
class derivation {
  public:
    void add(std::string name, expression what, tenmap_dtype dtype = TENMAP_AS_STORED) {
        all_.push_back({std::move(name), std::move(what), dtype});
    }
    // All tensors of a model under their own names, except for names that were added before.
    void add_rest(const model &from) {
        std::set<std::string, std::less<>> names;
        for (const named &each : all_)
            names.insert(each.name);
        for (tensor t : from.tensors())
            if (names.find(t.name()) == names.end())
                add(std::string(t.name()), t);
    }
    std::size_t size() const noexcept { return all_.size(); }

    result<model> try_derive() const {
        std::vector<std::vector<tenmap_term>> terms(all_.size());
        std::vector<tenmap_derived> list(all_.size());
        for (std::size_t i = 0; i < all_.size(); i++) {
            const char *wrong = describe(all_[i], terms[i], list[i]);
            if (wrong)
                return refused(i, wrong);
        }
        return tenmap::try_derive(list);
    }
#if TENMAP_EXCEPTIONS
    model derive() const {
        return try_derive().value();
    }
#endif

  private:
    struct named {
        std::string name;
        expression what;
        tenmap_dtype dtype;
    };
    error refused(std::size_t i, const char *wrong) const {
        std::string said = "derived tensor \"" + all_[i].name + "\": " + wrong;
        error e(TENMAP_ERR_ARGUMENT, said.c_str());
        e.out()->index = i;
        return e;
    }
    template <class N> static const N *numbers(const std::optional<std::vector<N>> &from) {
        static const N none{};
        return !from ? nullptr : from->empty() ? &none : from->data();
    }
    static std::size_t rank_of(const term &t) {
        return t.shape_ ? t.shape_->size() : t.of_ ? t.of_->rank : 0;
    }
    // Returns what is wrong with the term, or NULL.
    static const char *add_term(const term &t, bool has_factor, std::vector<tenmap_term> &out) {
        tenmap_term made = {};
        made.tensor = t.of_.get();
        made.factor = has_factor ? t.factor_ : t.factor_ == 1 ? 0 : t.factor_;
        made.shape = numbers(t.shape_);
        made.rank = t.shape_ ? static_cast<std::uint32_t>(t.shape_->size()) : 0;
        made.begin = numbers(t.begin_);
        made.end = numbers(t.end_);
        made.flags = t.flags_;
        out.push_back(made);
        bool whole = !t.begin_ || (t.begin_->size() == rank_of(t) && t.end_->size() == rank_of(t));
        return whole ? nullptr : "a slice takes one pair of indices per dimension";
    }
    static const char *describe(const named &from, std::vector<tenmap_term> &terms,
                                tenmap_derived &out) {
        const expression &x = from.what;
        bool products = !x.pairs_.empty(), sum = x.op_ == TENMAP_DERIVE_SUM;
        const char *wrong = nullptr;
        if (x.nested_ || (products && x.terms_.size() > 1))
            return "this takes two operations: derive the inner one first, in a model of its own";
        std::uint32_t op = x.op_;
        if (op == TENMAP_DERIVE_RENAME && x.terms_[0].factor_ != 1)
            op = TENMAP_DERIVE_SUM, sum = true;
        if (products && x.terms_.empty())
            terms.push_back(tenmap_term{});
        for (std::size_t k = 0; !wrong && k < x.terms_.size(); k++)
            wrong = add_term(x.terms_[k], sum || products, terms);
        for (std::size_t k = 0; !wrong && k < x.pairs_.size(); k++)
            wrong = add_term(x.pairs_[k], k % 2 == 0, terms);
        std::size_t rank = x.terms_.empty() ? 2 : rank_of(x.terms_[0]);
        if (!wrong && x.order_ && x.order_->size() != rank + (op == TENMAP_DERIVE_STACK))
            wrong = "its order does not have as many axes as it has";
        out = {};
        out.name = from.name.c_str();
        out.dtype = from.dtype;
        out.op = op;
        out.axis = x.axis_;
        out.n = static_cast<std::uint32_t>(terms.size());
        out.terms = terms.data();
        out.order = numbers(x.order_);
        out.shape = numbers(x.shape_);
        out.rank = x.shape_ ? static_cast<std::uint32_t>(x.shape_->size()) : 0;
        return wrong;
    }
    std::vector<named> all_;
};

namespace detail {

struct free_arena {
    void operator()(tenmap_arena *a) const noexcept { tenmap_arena_free(a); }
};

} // namespace detail

// Memory for the weights that take() could not use in place. The destructor frees it. Empty if all
// weights are views.
class arena {
  public:
    arena() noexcept = default;
    explicit arena(tenmap_arena *taken) noexcept : a_(taken) {}
    explicit operator bool() const noexcept { return a_ != nullptr; }
    tenmap_arena *get() const noexcept { return a_.get(); }

  private:
    std::unique_ptr<tenmap_arena, detail::free_arena> a_;
};

// The weights that an engine wants, each as elements of one type, taken in one call:
//
//     tenmap::wants wants;
//     tenmap::span<const float> up;
//     wants.add(up, "model.layers.%u.mlp.up_proj.weight", TENMAP_WANT_LAYER(7), {11008, 4096});
//     tenmap::arena arena = wants.take(model);
//
// A take that succeeds sets the spans, so they must not be moved before it. They point into the
// model or into the arena: keep both. A missing weight that is TENMAP_WANT_OPTIONAL becomes an
// empty span.
class wants {
  public:
    template <class T>
    void add(span<const T> &out, std::string name, std::uint32_t flags = 0,
             std::initializer_list<std::uint64_t> shape = {}) {
        static_assert(std::is_trivially_copyable_v<T>);
        all_.push_back({&out, set<T>, std::move(name), shape, dtype_of<T>, flags});
    }
    std::size_t size() const noexcept { return all_.size(); }

    // Sets all spans, or none and returns one error that names what is missing or does not fit.
    // With how.append, that arena has the weights, and the result is empty.
    result<arena> try_take(const model &from,
                           const tenmap_load_options &how = load_options()) const {
        error e;
        tenmap_arena *taken = nullptr;
        std::vector<tenmap_want> list(all_.size());
        for (std::size_t i = 0; i < all_.size(); i++) {
            const wanted &w = all_[i];
            list[i].name = w.name.c_str();
            list[i].as = w.as;
            list[i].flags = w.flags;
            list[i].rank = static_cast<std::uint32_t>(w.shape.size());
            list[i].shape = w.shape.empty() ? nullptr : w.shape.data();
        }
        if (tenmap_take(from.get(), list.data(), list.size(), &how, &taken, e.out()) != TENMAP_OK)
            return e;
        for (std::size_t i = 0; i < all_.size(); i++)
            all_[i].set(all_[i].out, list[i]);
        return arena(how.append ? nullptr : taken);
    }
#if TENMAP_EXCEPTIONS
    arena take(const model &from, const tenmap_load_options &how = load_options()) const {
        return try_take(from, how).value();
    }
#endif

  private:
    struct wanted {
        void *out;
        void (*set)(void *out, const tenmap_want &got);
        std::string name;
        std::vector<std::uint64_t> shape; // empty: any
        tenmap_dtype as;
        std::uint32_t flags;
    };
    template <class T> static void set(void *out, const tenmap_want &got) {
        std::size_t n = got.tensor ? static_cast<std::size_t>(got.tensor->nelems) : 0;
        *static_cast<span<const T> *>(out) = {static_cast<const T *>(got.data), n};
    }
    std::vector<wanted> all_;
};

// Converts src to dst, which must have as many elements. No model is involved.
template <class To, class From>
result<void> try_convert(span<To> dst, span<const From> src, std::uint32_t flags = 0) {
    error e;
    if (dst.size() != src.size())
        return error(TENMAP_ERR_ARGUMENT, "source and destination differ in length");
    if (tenmap_convert(dtype_of<To>, dst.data(), dst.size_bytes(), dtype_of<From>, src.data(),
                       src.size(), flags, e.out()) != TENMAP_OK)
        return e;
    return {};
}
#if TENMAP_EXCEPTIONS
template <class To, class From>
void convert(span<To> dst, span<const From> src, std::uint32_t flags = 0) {
    try_convert<To, From>(dst, src, flags).value();
}
#endif

#ifndef TENMAP_NO_WRITE
struct writer_options : tenmap_writer_options {
    writer_options() noexcept : tenmap_writer_options TENMAP_WRITER_OPTIONS_INIT {}
};

namespace detail {

struct abort_writer {
    void operator()(tenmap_writer *w) const noexcept { tenmap_writer_abort(w); }
};

// Writes elements in the file's byte order, which is little-endian.
template <class T>
result<void> write_little(tenmap_writer *w, std::size_t id, std::uint64_t first,
                          span<const T> data) {
    error e;
    std::uint64_t at = first * sizeof(T);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    constexpr std::size_t unit = std::is_same_v<T, std::complex<float>> ? 4 : sizeof(T);
    std::vector<unsigned char> bytes(data.size_bytes());
    const unsigned char *from = reinterpret_cast<const unsigned char *>(data.data());
    for (std::size_t i = 0; i < bytes.size(); i++)
        bytes[i] = from[i / unit * unit + unit - 1 - i % unit];
    const void *out = bytes.data();
#else
    const void *out = data.data();
#endif
    if (tenmap_writer_write(w, id, at, out, data.size_bytes(), e.out()) != TENMAP_OK)
        return e;
    return {};
}

} // namespace detail

// A file that is being written. commit() makes it appear, complete; without a commit the destructor
// leaves no trace. Move-only.
class writer {
  public:
    writer() noexcept = default;
    explicit writer(tenmap_writer *taken) noexcept : w_(taken) {}
    explicit operator bool() const noexcept { return w_ != nullptr; }
    tenmap_writer *get() const noexcept { return w_.get(); }

    result<void> try_metadata(std::string_view key, std::string_view value) {
        error e;
        if (tenmap_writer_metadata(w_.get(), text(key), key.size(), text(value), value.size(),
                                   e.out()) != TENMAP_OK)
            return e;
        return {};
    }
    // Declares a tensor. The result is its number, for write() and copy().
    result<std::size_t> try_add(std::string_view name, tenmap_dtype dtype,
                                span<const std::uint64_t> shape) {
        error e;
        std::size_t id = 0;
        if (tenmap_writer_add(w_.get(), text(name), name.size(), dtype, shape.data(),
                              static_cast<std::uint32_t>(shape.size()), &id, e.out()) != TENMAP_OK)
            return e;
        return id;
    }
    // Writes elements of a tensor that was declared as T, starting at element `first`.
    template <class T>
    result<void> try_write(std::size_t id, span<const T> data, std::uint64_t first = 0) {
        return detail::write_little(w_.get(), id, first, data);
    }
    // Copies a tensor of an open model, converted to the declared dtype.
    result<void> try_copy(std::size_t id, tensor from, std::uint32_t flags = 0) {
        error e;
        if (tenmap_writer_copy(w_.get(), id, from.get(), flags, e.out()) != TENMAP_OK)
            return e;
        return {};
    }
    // All or nothing. Afterwards the writer is empty in either case.
    result<void> try_commit() {
        error e;
        if (tenmap_writer_commit(w_.release(), e.out()) != TENMAP_OK)
            return e;
        return {};
    }
    void abort() noexcept { w_.reset(); }

#if TENMAP_EXCEPTIONS
    void metadata(std::string_view key, std::string_view value) {
        try_metadata(key, value).value();
    }
    std::size_t add(std::string_view name, tenmap_dtype dtype, span<const std::uint64_t> shape) {
        return try_add(name, dtype, shape).value();
    }
    std::size_t add(std::string_view name, tenmap_dtype dtype,
                    std::initializer_list<std::uint64_t> shape) {
        return add(name, dtype, span<const std::uint64_t>(shape.begin(), shape.size()));
    }
    template <class T> void write(std::size_t id, span<const T> data, std::uint64_t first = 0) {
        try_write<T>(id, data, first).value();
    }
    template <class T>
    void write(std::size_t id, const std::vector<T> &data, std::uint64_t first = 0) {
        try_write<T>(id, span<const T>(data), first).value();
    }
    void copy(std::size_t id, tensor from, std::uint32_t flags = 0) {
        try_copy(id, from, flags).value();
    }
    void commit() {
        try_commit().value();
    }
#endif

  private:
    static const char *text(std::string_view s) noexcept {
        return s.data() ? s.data() : "";
    }
    std::unique_ptr<tenmap_writer, detail::abort_writer> w_;
};

inline result<writer> try_create(const std::string &path,
                                 const tenmap_writer_options &how = writer_options()) {
    error e;
    tenmap_writer *w = nullptr;
    if (tenmap_writer_create(path.c_str(), &how, &w, e.out()) != TENMAP_OK)
        return e;
    return writer(w);
}
#if TENMAP_EXCEPTIONS
inline writer create(const std::string &path, const tenmap_writer_options &how = writer_options()) {
    return try_create(path, how).value();
}
#endif
#endif

#ifndef TENMAP_NO_CHECK
// Calls found(const tenmap_finding &) for everything that is wrong or odd. What `found` throws is
// rethrown here.
template <class F>
result<void> try_check(const std::string &path, F &&found, const tenmap_options &how = options()) {
    error e;
    auto call = [&found](const tenmap_finding *f) { found(*f); };
    detail::callback<decltype(call)> back{call};
    tenmap_status status = tenmap_check(
        path.c_str(), &how,
        [](void *ctx, const tenmap_finding *f) {
            (*static_cast<detail::callback<decltype(call)> *>(ctx))(f);
        },
        &back, e.out());
    back.rethrow();
    if (status != TENMAP_OK)
        return e;
    return {};
}
#if TENMAP_EXCEPTIONS
template <class F>
void check(const std::string &path, F &&found, const tenmap_options &how = options()) {
    try_check(path, std::forward<F>(found), how).value();
}
#endif
#endif

// tenmap_fingerprint: of headers and times, or with TENMAP_FINGERPRINT_VALUES of every byte.
inline result<std::array<std::uint8_t, 32>> try_fingerprint(const model &of,
                                                            std::uint32_t flags = 0) {
    error e;
    std::array<std::uint8_t, 32> out;
    if (tenmap_fingerprint(of.get(), flags, out.data(), e.out()) != TENMAP_OK)
        return e;
    return out;
}
#if TENMAP_EXCEPTIONS
inline std::array<std::uint8_t, 32> fingerprint(const model &of, std::uint32_t flags = 0) {
    return try_fingerprint(of, flags).value();
}
#endif

#ifndef TENMAP_NO_MEASURE
inline result<tenmap_stats> try_measure(tensor of) {
    error e;
    tenmap_stats stats;
    const tenmap_tensor *one = of.get();
    if (tenmap_measure(&one, 1, nullptr, &stats, e.out()) != TENMAP_OK)
        return e;
    return stats;
}
#if TENMAP_EXCEPTIONS
inline tenmap_stats measure(tensor of) {
    return try_measure(of).value();
}
#endif
#endif

} // namespace tenmap

#endif
