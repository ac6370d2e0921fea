/* Recognizes files of other formats by their first bytes and says what to do about them. */
#include "format.h"

#include <string.h>

#define MAGIC(bytes, remedy, text)                                                                 \
    { bytes, sizeof(bytes) - 1, TENMAP_REMEDY_##remedy, text }

static const struct {
    const char *bytes;
    size_t len;
    uint32_t remedy;
    const char *text;
} magics[] = {
    MAGIC("version https://git-lfs.github.com/spec/", FETCH_AGAIN,
          "this is a Git LFS pointer, not the model: run `git lfs pull` to fetch the real file"),
    MAGIC("version https://hawser.github.com/spec/", FETCH_AGAIN,
          "this is a Git LFS pointer, not the model: run `git lfs pull` to fetch the real file"),
    MAGIC("lmgg", CONVERT,
          "this is an old GGML file: use the SafeTensors or GGUF release of the model"),
    MAGIC("tjgg", CONVERT,
          "this is an old GGML file: use the SafeTensors or GGUF release of the model"),
    MAGIC("\x1f\x8b", CONVERT, "this is a gzip archive: unpack it first (gunzip)"),
    MAGIC("\x28\xb5\x2f\xfd", CONVERT, "this is a Zstandard archive: unpack it first (zstd -d)"),
    MAGIC("\xfd"
          "7zXZ",
          CONVERT, "this is an xz archive: unpack it first (unxz)"),
    MAGIC("BZh", CONVERT, "this is a bzip2 archive: unpack it first (bunzip2)"),
    MAGIC("7z\xbc\xaf\x27\x1c", CONVERT, "this is a 7z archive: unpack it first"),
    MAGIC("\x89HDF\r\n\x1a\n", CONVERT,
          "this is an HDF5 file (.h5, Keras): load it with Keras and save its weights as "
          "SafeTensors (safetensors.numpy.save_file)"),
    MAGIC("\xef\xbb\xbf", NONE,
          "this is a text file that begins with a byte order mark: if it is an index, save it "
          "without one"),
};

static const char pickle_text[] =
    "this is a Python pickle that PyTorch did not write (such as joblib's, for scikit-learn): save "
    "the arrays in it as SafeTensors, and do not unpickle files that you do not trust";
static const char torch_tar_text[] =
    "this is a PyTorch checkpoint from before torch 0.1.10 (a tar archive): load it with a recent "
    "torch and save it again, and do not unpickle files that you do not trust";
static const char tar_text[] = "this is a tar archive: unpack it first (tar -xf)";
static const char empty_zip_text[] =
    "this is a zip archive without entries, as numpy.savez writes it without arrays";
static const char zip_text[] = "this is a zip archive: unpack it first";
static const char html_text[] =
    "this is an HTML page, most likely a login or error page saved by the download: fetch the file "
    "again";

/* How plain-text responses of hubs, proxies and storage servers begin, in lower case. */
static const char *const server_texts[] = {
    "entry not found",
    "repository not found",
    "revision not found",
    "file not found",
    "not found",
    "404 ",
    "401 ",
    "403 ",
    "429 ",
    "500 ",
    "502 ",
    "503 ",
    "invalid username or",
    "invalid credentials",
    "invalid token",
    "access to model ",
    "access to dataset ",
    "cannot access gated",
    "you are trying to",
    "unauthorized",
    "forbidden",
    "authentication required",
    "too many requests",
    "rate limit",
    "we had to rate",
    "bad request",
    "internal server",
    "bad gateway",
    "service unavail",
    "gateway time",
    "no healthy upstream",
    "upstream connect error",
    "error code: ",
    "request has expired",
    "method not allowed",
    "the requested url",
};

/* The position of `what`, or len if it is not there. */
static size_t find_text_in(const unsigned char *bytes, size_t len, const char *what) {
    size_t size = strlen(what);
    for (size_t i = 0; i + size <= len; i++)
        if (memcmp(bytes + i, what, size) == 0)
            return i;
    return len;
}

static bool contains(const unsigned char *bytes, size_t len, const char *what) {
    return find_text_in(bytes, len, what) < len;
}

/* Whether the text starts with `what` after white space, ignoring case (`what` is lower case). */
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

/* What a tar archive is, by the name of its first entry: torch wrote four of them. */
static const char *tar_kind(const unsigned char *bytes) {
    static const char *const entries[] = {"sys_info", "pickle", "tensors", "storages"};
    enum { NAME_BYTES = 100 };
    size_t len = 0;
    while (len < NAME_BYTES && bytes[len])
        len++;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        if (strlen(entries[i]) == len && memcmp(bytes, entries[i], len) == 0)
            return torch_tar_text;
    return tar_text;
}

/* A pickle of protocol 2 to 5, judging by its first opcodes. */
static bool is_pickle(const unsigned char *bytes, size_t len) {
    return len > 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 &&
           (bytes[2] == 0x8a || bytes[2] == '}' || bytes[2] == ']' || bytes[2] == '(' ||
            bytes[2] == 'c' || bytes[2] == 0x95 || bytes[2] == 'X' || bytes[2] == 'K');
}

static bool all_zero(const unsigned char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (bytes[i])
            return false;
    return true;
}

/* The bytes read so far may end inside a character. */
static bool all_text(const unsigned char *bytes, size_t len) {
    if (tmi_utf8_valid((const char *)bytes, len) + 4 <= len)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((bytes[i] < 0x20 && (bytes[i] < '\t' || bytes[i] > '\r')) || bytes[i] == 0x7f)
            return false;
    return true;
}

static bool all_blank(const unsigned char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != ' ' && (bytes[i] < '\t' || bytes[i] > '\r'))
            return false;
    return true;
}

/* JSON begins with a brace, or with a bracket and a value: "[PAD]" is a word of a vocabulary. */
static bool is_json(const unsigned char *bytes, size_t len) {
    static const char *const values[] = {"[\"", "[{", "[[", "[]", "[-", "[true", "[false", "[null"};
    unsigned char squeezed[8];
    size_t used = 0;
    for (size_t i = 0; i < len && used < sizeof squeezed; i++)
        if (bytes[i] != ' ' && (bytes[i] < '\t' || bytes[i] > '\r'))
            squeezed[used++] = bytes[i];
    if (used > 0 && squeezed[0] == '{')
        return true;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (starts_as(squeezed, used, values[i]))
            return true;
    return used > 1 && squeezed[0] == '[' && squeezed[1] >= '0' && squeezed[1] <= '9';
}

/* What a server sends instead of the file is short. */
static bool is_server_text(const unsigned char *bytes, size_t len, uint64_t size) {
    enum { LONGEST = 2048 };
    if (size > LONGEST || !all_text(bytes, len))
        return false;
    for (size_t i = 0; i < sizeof server_texts / sizeof server_texts[0]; i++)
        if (starts_as(bytes, len, server_texts[i]))
            return true;
    return starts_as(bytes, len, "{\"error\"") || starts_as(bytes, len, "{\"detail\"");
}

/* Storage servers reply <Error><Code>AccessDenied</Code>: the code is what to show. */
static const char *xml_kind(const unsigned char *bytes, size_t len, tmi_shown *shown) {
    size_t code = find_text_in(bytes, len, "<Code>"), end = find_text_in(bytes, len, "</Code>");
    if (!contains(bytes, len, "<Error") || code > end || end == len)
        return "this is an XML document, most likely an error message saved by the download: fetch "
               "the file again";
    shown->at = code + strlen("<Code>");
    shown->len = end - shown->at;
    return "this is an XML document, the error message of a server, saved in place of the file: "
           "fetch the file again";
}

/* Says what kind of text it is, and shows how it begins. */
static const char *text_kind(const unsigned char *start, size_t len, uint64_t size,
                             tmi_shown *shown) {
    enum { SHOWN_AT_MOST = 60 };
    *shown = (tmi_shown){.len = len < SHOWN_AT_MOST ? len : SHOWN_AT_MOST};
    if (is_server_text(start, len, size)) {
        shown->remedy = TENMAP_REMEDY_FETCH_AGAIN;
        return TMI_SERVER_ERROR;
    }
    if (is_json(start, len))
        return "this is JSON text, not a SafeTensors file";
    if (all_text(start, len))
        return "this is a text file, not a SafeTensors file";
    shown->len = 0;
    return NULL;
}

/* What a download that failed leaves in place of the file. */
static const char *failed_download(const unsigned char *start, size_t len, uint64_t size,
                                   tmi_shown *shown) {
    if (size == 0)
        return "the file is empty: the download did not begin, or nothing was written";
    if (starts_as(start, len, "<!doctype html") || starts_as(start, len, "<html") ||
        starts_as(start, len, "<head"))
        return html_text;
    if (starts_as(start, len, "<?xml") || starts_as(start, len, "<error>"))
        return xml_kind(start, len, shown);
    if (len >= 8 && all_zero(start, len))
        return "the file begins with only zeros: space was reserved for it, but the download is "
               "incomplete";
    return len == size && all_blank(start, len) ? TMI_ONLY_BLANKS : NULL;
}

/* Formats of other frameworks. */

/* FlatBuffers have an identifier of four letters after the offset of their root. */
static const char *flatbuffer_kind(const unsigned char *bytes, size_t len) {
    static const struct {
        const char *letters, *text;
    } kinds[] = {
        {"TFL3", "this is a TensorFlow Lite model (.tflite), which is compiled for inference: use "
                 "the model that it was made from"},
        {"ET12", "this is an ExecuTorch program (.pte), which is compiled for a device: use the "
                 "PyTorch model that it was made from"},
        {"FT01", "this is an ExecuTorch data file (.ptd), which belongs to a program for a device: "
                 "use the PyTorch model that it was made from"},
        {"PTMF", "this is a TorchScript model for mobile devices (.ptl): save the model's "
                 "state_dict with torch.save, or as SafeTensors"},
    };
    for (size_t i = 0; len >= 8 && i < sizeof kinds / sizeof kinds[0]; i++)
        if (memcmp(bytes + 4, kinds[i].letters, 4) == 0)
            return kinds[i].text;
    return NULL;
}

/* A varint of Protocol Buffers; moves *at behind it. Returns false if it does not end in time. */
static bool take_varint(const unsigned char *bytes, size_t len, size_t *at, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; *at < len && shift < 63; shift += 7) {
        unsigned char byte = bytes[(*at)++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* Text with its length before it; moves *at behind it. */
static bool take_short_text(const unsigned char *bytes, size_t len, size_t *at) {
    size_t size = *at < len ? bytes[*at] : 0;
    if (size > 127 || len - *at <= size)
        return false;
    for (size_t i = 1; i <= size; i++)
        if (bytes[*at + i] < ' ' || bytes[*at + i] > '~')
            return false;
    *at += 1 + size;
    return size > 0;
}

/*
 * Messages of Protocol Buffers have no magic: the first fields must be those that the format's
 * writers write first. A tag is the field's number times 8, plus 2 for text and messages.
 */
enum {
    TAG_1_NUMBER = 0x08,
    TAG_1 = 0x0a,
    TAG_2 = 0x12,
    TAG_7 = 0x3a,
    TAG_8 = 0x42,
    ONNX_MOST_VERSION = 30
};

/* ir_version, then producer_name, graph or opset_import. */
static bool is_onnx(const unsigned char *bytes, size_t len) {
    size_t at = 3;
    if (len < 8 || bytes[0] != TAG_1_NUMBER || bytes[1] < 1 || bytes[1] > ONNX_MOST_VERSION)
        return false;
    if (bytes[2] == TAG_2)
        return take_short_text(bytes, len, &at);
    return bytes[2] == TAG_7 || bytes[2] == TAG_8;
}

/* saved_model_schema_version 1, then a meta_graph that begins with its meta_info. */
static bool is_saved_model(const unsigned char *bytes, size_t len) {
    size_t at = 3;
    uint64_t size;
    return len > 3 && memcmp(bytes, "\x08\x01\x12", 3) == 0 &&
           take_varint(bytes, len, &at, &size) && at < len && bytes[at] == TAG_1 &&
           size < INT64_MAX && size > len - at;
}

/* A node: its name, then its operation. */
static bool is_tf_graph(const unsigned char *bytes, size_t len) {
    size_t at = 1;
    uint64_t size;
    if (len < 8 || bytes[0] != TAG_1 || !take_varint(bytes, len, &at, &size) || at >= len ||
        bytes[at++] != TAG_1 || !take_short_text(bytes, len, &at) || at + 1 >= len ||
        bytes[at++] != TAG_2)
        return false;
    unsigned char first = bytes[at + 1];
    return first >= 'A' && first <= 'Z' && take_short_text(bytes, len, &at);
}

/*
 * The index of a TensorFlow checkpoint: a table whose first key is empty, and whose first value
 * says how many data files there are.
 */
static bool is_tf_index(const unsigned char *bytes, size_t len) {
    return len > 8 && bytes[0] == 0 && bytes[1] == 0 && bytes[2] >= 4 && bytes[2] < 32 &&
           bytes[3] == TAG_1_NUMBER && bytes[4] >= 1 &&
           contains(bytes, len < 64 ? len : 64, "\x1a\x02\x08\x01");
}

/* A map of MessagePack whose first key is a string, as flax writes a tree of parameters. */
static bool is_flax(const unsigned char *bytes, size_t len) {
    enum { FIX_MAP = 0x80, FIX_TEXT = 0xa0, MAP_16 = 0xde, MAP_32 = 0xdf, TEXT_8 = 0xd9 };
    size_t at = 1;
    if (len < 4 || (bytes[0] & 0xf0) != FIX_MAP || bytes[0] == FIX_MAP) {
        if (len < 8 || (bytes[0] != MAP_16 && bytes[0] != MAP_32))
            return false;
        at += bytes[0] == MAP_16 ? 2 : 4;
    }
    size_t size = bytes[at] & 0x1f;
    if (bytes[at] == TEXT_8)
        size = bytes[++at];
    else if ((bytes[at] & 0xe0) != FIX_TEXT)
        return false;
    if (size == 0 || size >= len - at)
        return false;
    for (size_t i = 1; i <= size; i++)
        if (bytes[at + i] < ' ' || bytes[at + i] > '~')
            return false;
    return true;
}

static const struct {
    bool (*is)(const unsigned char *bytes, size_t len);
    const char *text;
} frameworks[] = {
    {is_saved_model, "this is a TensorFlow SavedModel (.pb): load it with TensorFlow and save its "
                     "variables as SafeTensors (safetensors.tensorflow.save_file)"},
    {is_onnx, "this is an ONNX model (.onnx): use the model that it was exported from, or save its "
              "initializers as SafeTensors (onnx.numpy_helper)"},
    {is_tf_graph,
     "this is a TensorFlow graph (.pb): load it with TensorFlow and save its constants "
     "as SafeTensors (safetensors.tensorflow.save_file)"},
    {is_tf_index, "this is the index of a TensorFlow checkpoint: load it with TensorFlow "
                  "(tf.train.load_checkpoint) and save its tensors as SafeTensors"},
    {is_flax, "this is a MessagePack file (.msgpack, flax): load it with flax and save its "
              "parameters as SafeTensors (safetensors.flax.save_file)"},
};

static const char *framework_kind(const unsigned char *bytes, size_t len) {
    for (size_t i = 0; i < sizeof frameworks / sizeof frameworks[0]; i++)
        if (frameworks[i].is(bytes, len))
            return frameworks[i].text;
    return flatbuffer_kind(bytes, len);
}

/* Archives and other formats that a single magic does not identify. */
static const char *other_program(const unsigned char *start, size_t len) {
    if (len >= 4 && (memcmp(start, "PK\3\4", 4) == 0 || memcmp(start, "PK\5\6", 4) == 0))
        return memcmp(start, "PK\5\6", 4) == 0 ? empty_zip_text : zip_text;
    if (is_pickle(start, len))
        return pickle_text;
    if (len > 262 && memcmp(start + 257, "ustar", 5) == 0)
        return tar_kind(start);
    return framework_kind(start, len);
}

const char *tmi_other_format(const unsigned char *start, size_t len, uint64_t size,
                             tmi_shown *shown) {
    *shown = (tmi_shown){.remedy = TENMAP_REMEDY_NONE};
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        if (len >= magics[i].len && memcmp(start, magics[i].bytes, magics[i].len) == 0) {
            shown->remedy = magics[i].remedy;
            return magics[i].text;
        }
    const char *text = other_program(start, len);
    shown->remedy = TENMAP_REMEDY_CONVERT;
    if (text)
        return text;
    text = failed_download(start, len, size, shown);
    shown->remedy = TENMAP_REMEDY_FETCH_AGAIN;
    return text ? text : text_kind(start, len, size, shown);
}

const char *tmi_other_by_name(const char *path) {
    enum { DIGITS = 5 };
    static const char data[] = ".data-", of[] = "-of-";
    size_t len = strlen(path), ending = sizeof data - 1 + DIGITS + sizeof of - 1 + DIGITS;
    if (len < ending)
        return NULL;
    const char *at = path + len - ending;
    if (memcmp(at, data, sizeof data - 1) != 0 ||
        memcmp(at + sizeof data - 1 + DIGITS, of, sizeof of - 1) != 0)
        return NULL;
    return "by its name, this is the data of a TensorFlow checkpoint: load the checkpoint with "
           "TensorFlow (tf.train.load_checkpoint) and save its tensors as SafeTensors";
}

bool tmi_is_other_index(const char *name) {
    static const char *const parts[] = {".msgpack.index", ".h5.index"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(name, parts[i]))
            return true;
    return false;
}
