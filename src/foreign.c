/* Files that are something else: recognised by their first bytes, named with what to do. */
#include "format.h"

#include <string.h>

#define MAGIC(bytes, text)                                                                         \
    { bytes, sizeof(bytes) - 1, text }

static const struct {
    const char *bytes;
    size_t len;
    const char *text;
} magics[] = {
    MAGIC("version https://git-lfs.github.com/spec/",
          "this is a Git LFS pointer, not the model: run `git lfs pull` to fetch the real file"),
    MAGIC("version https://hawser.github.com/spec/",
          "this is a Git LFS pointer, not the model: run `git lfs pull` to fetch the real file"),
    MAGIC("lmgg", "this is an old GGML file: use the SafeTensors release of the model"),
    MAGIC("tjgg", "this is an old GGML file: use the SafeTensors release of the model"),
    MAGIC("\x1f\x8b", "this is a gzip archive: unpack it first (gunzip)"),
    MAGIC("\x28\xb5\x2f\xfd", "this is a Zstandard archive: unpack it first (zstd -d)"),
    MAGIC("\xfd"
          "7zXZ",
          "this is an xz archive: unpack it first (unxz)"),
    MAGIC("BZh", "this is a bzip2 archive: unpack it first (bunzip2)"),
    MAGIC("7z\xbc\xaf\x27\x1c", "this is a 7z archive: unpack it first"),
    MAGIC("\x89HDF\r\n\x1a\n", "this is an HDF5 file (Keras, TensorFlow): convert it to "
                               "SafeTensors first"),
    MAGIC("\x93NUMPY", "this is a NumPy array (.npy): convert it to SafeTensors first"),
    MAGIC("\xef\xbb\xbf",
          "this is a text file that begins with a byte order mark: if it is an index, save it "
          "without one"),
};

static const char pickle_text[] =
    "this is a Python pickle (an old PyTorch checkpoint): convert it to SafeTensors first, and do "
    "not unpickle files that you do not trust";
static const char torch_text[] =
    "this is a PyTorch checkpoint (a zip with a pickle inside): convert it to SafeTensors first";
static const char npz_text[] = "this is a NumPy archive (.npz): convert it to SafeTensors first";
static const char zip_text[] = "this is a zip archive: unpack it first";
static const char html_text[] =
    "this is an HTML page, most likely a login or error page saved by the download: fetch the file "
    "again";

static bool contains(const unsigned char *bytes, size_t len, const char *what) {
    size_t size = strlen(what);
    for (size_t i = 0; i + size <= len; i++)
        if (memcmp(bytes + i, what, size) == 0)
            return true;
    return false;
}

/* Whether the text starts so, after white space, in either case (`what` is lower case). */
static bool starts_as(const unsigned char *bytes, size_t len, const char *what) {
    size_t at = 0;
    while (at < len && (bytes[at] == ' ' || (bytes[at] >= '\t' && bytes[at] <= '\r')))
        at++;
    for (; *what; what++, at++) {
        if (at >= len)
            return false;
        unsigned char c = bytes[at];
        if (c >= 'A' && c <= 'Z')
            c = (unsigned char)(c - 'A' + 'a');
        if (c != (unsigned char)*what)
            return false;
    }
    return true;
}

/* A pickle of protocol 2 to 5, as far as its first opcodes tell. */
static bool is_pickle(const unsigned char *bytes, size_t len) {
    return len > 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 &&
           (bytes[2] == 0x8a || bytes[2] == '}' || bytes[2] == ']' || bytes[2] == '(' ||
            bytes[2] == 'c' || bytes[2] == 0x95 || bytes[2] == 'X' || bytes[2] == 'K');
}

static const char *zip_kind(const unsigned char *bytes, size_t len) {
    size_t shown = len < 128 ? len : 128; /* the first member's name */
    if (contains(bytes, shown, "data.pkl") || contains(bytes, shown, "/version") ||
        contains(bytes, shown, ".format_version"))
        return torch_text;
    return contains(bytes, shown, ".npy") ? npz_text : zip_text;
}

static bool all_zero(const unsigned char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (bytes[i])
            return false;
    return true;
}

/* What was read may end inside a character. */
static bool all_text(const unsigned char *bytes, size_t len) {
    if (tmi_utf8_valid((const char *)bytes, len) + 4 <= len)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((bytes[i] < 0x20 && (bytes[i] < '\t' || bytes[i] > '\r')) || bytes[i] == 0x7f)
            return false;
    return true;
}

const char *tmi_foreign(const unsigned char *start, size_t len, uint64_t size, bool *show) {
    *show = false;
    if (size == 0)
        return "the file is empty: the download did not begin, or nothing was written";
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        if (len >= magics[i].len && memcmp(start, magics[i].bytes, magics[i].len) == 0)
            return magics[i].text;
    if (len >= 4 && (memcmp(start, "PK\3\4", 4) == 0 || memcmp(start, "PK\5\6", 4) == 0))
        return zip_kind(start, len);
    if (is_pickle(start, len))
        return pickle_text;
    if (starts_as(start, len, "<!doctype html") || starts_as(start, len, "<html"))
        return html_text;
    if (starts_as(start, len, "<?xml"))
        return "this is an XML document, most likely an error message saved by the download: fetch "
               "the file again";
    if (len > 262 && memcmp(start + 257, "ustar", 5) == 0)
        return "this is a tar archive: unpack it first (tar -xf)";
    if (len >= 8 && all_zero(start, len))
        return "the file begins with zeros only: space was set aside for it, but the download is "
               "not complete";
    *show = true;
    if (starts_as(start, len, "{") || starts_as(start, len, "["))
        return "this is JSON text, not a SafeTensors file";
    *show = all_text(start, len);
    if (*show)
        return "this is a text file, not a SafeTensors file";
    return NULL;
}
