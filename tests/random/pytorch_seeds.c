/* Writes random checkpoints, by opcodes and zip records. */
#include "pytorch_seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STORAGE_BYTES = 256, MOST_DEPTH = 6, MOST_MEMO = 400 };

static uint64_t state;

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The states of one seed are counted up, so those of the next seed must lie far from them. */
void roll_begin(uint64_t seed) {
    state = mixed(seed + 1);
}

static uint64_t roll_any(void) {
    return mixed(state += UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t roll(uint64_t limit) {
    return roll_any() % limit;
}

uint64_t roll_size(void) {
    uint64_t shift = roll(64);
    switch (roll(4)) {
    case 0:
        return roll(20);
    case 1:
        return (UINT64_C(1) << shift) + roll(5) - 2;
    case 2:
        return UINT64_MAX - roll(5);
    default:
        return roll_any() >> shift;
    }
}

void put_bytes(seed_bytes *out, const void *bytes, size_t size) {
    if (out->capacity - out->size < size) {
        out->capacity = 2 * (out->size + size) + 64;
        out->at = realloc(out->at, out->capacity);
        if (!out->at)
            abort();
    }
    if (size)
        memcpy(out->at + out->size, bytes, size);
    out->size += size;
}

void put_number(seed_bytes *out, uint64_t number, unsigned size) {
    unsigned char bytes[8];
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    put_bytes(out, bytes, size);
}

static void put_opcode(seed_bytes *out, char opcode) {
    put_bytes(out, &opcode, 1);
}

/* Opcodes that are written in one place only are written as text. */
static void put_text(seed_bytes *out, const char *text) {
    put_bytes(out, text, strlen(text));
}

/* Pickles */

static bool is_legacy;
static unsigned memo_used;
/* All tensors see a storage as the same kind; a row of `kinds`, and whether it is untyped. */
static unsigned kind_of[SEED_STORAGES];
static bool is_untyped[SEED_STORAGES];

/* As protocol 4 writes strings, and names of globals always. */
static void put_short(seed_bytes *out, const char *text) {
    put_opcode(out, '\x8c');
    put_number(out, strlen(text), 1);
    put_text(out, text);
}

static void put_string(seed_bytes *out, const char *text) {
    size_t len = strlen(text);
    switch (roll(4)) {
    case 0:
        put_opcode(out, 'V');
        put_text(out, text);
        put_opcode(out, '\n');
        break;
    case 1:
        put_short(out, text);
        break;
    default:
        put_opcode(out, 'X');
        put_number(out, len, 4);
        put_text(out, text);
    }
}

static void put_int(seed_bytes *out, uint64_t value) {
    if (value < 256) {
        put_opcode(out, 'K');
        put_number(out, value, 1);
    } else if (value < 65536) {
        put_opcode(out, 'M');
        put_number(out, value, 2);
    } else if (value < UINT64_C(1) << 31 && roll(2)) {
        put_opcode(out, 'J');
        put_number(out, value, 4);
    } else {
        put_text(out, "\x8a\x08");
        put_number(out, value, 8);
    }
}

static void put_global(seed_bytes *out, const char *module, const char *name) {
    if (roll(4) == 0) {
        put_short(out, module);
        put_short(out, name);
        put_opcode(out, '\x93');
        return;
    }
    put_opcode(out, 'c');
    put_text(out, module);
    put_opcode(out, '\n');
    put_text(out, name);
    put_opcode(out, '\n');
}

/* Gives what is on the stack a number, which put_memo_get may ask for. */
static void put_memo(seed_bytes *out) {
    if (roll(3) || memo_used == MOST_MEMO)
        return;
    unsigned number = memo_used++;
    put_opcode(out, number < 256 ? 'q' : 'r');
    put_number(out, number, number < 256 ? 1 : 4);
}

static void put_memo_get(seed_bytes *out) {
    unsigned number = (unsigned)roll(memo_used);
    put_opcode(out, number < 256 ? 'h' : 'j');
    put_number(out, number, number < 256 ? 1 : 4);
}

static void put_empty_dict(seed_bytes *out) {
    put_global(out, "collections", "OrderedDict");
    put_text(out, ")R");
}

static const struct {
    const char *storage, *dtype;
    unsigned bytes;
} kinds[] = {{"FloatStorage", "float32", 4},      {"HalfStorage", "float16", 2},
             {"BFloat16Storage", "bfloat16", 2},  {"LongStorage", "int64", 8},
             {"BoolStorage", "bool", 1},          {"ComplexFloatStorage", "complex64", 8},
             {"ByteStorage", "float8_e4m3fn", 1}, {"DoubleStorage", "uint64", 8}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* A part of a storage; those of one key are the same, or nearly always. */
static void put_view(seed_bytes *out, unsigned number, unsigned elements) {
    unsigned which = (unsigned)roll(3);
    char key[3] = {(char)('v' + which), (char)('0' + number), '\0'};
    put_opcode(out, '(');
    put_short(out, key);
    put_int(out, roll(200) ? which : roll_size());
    put_int(out, roll(200) ? elements - 2 * which : roll_size());
    put_opcode(out, 't');
}

static void put_storage(seed_bytes *out, const char *storage, unsigned bytes, unsigned number) {
    char key[2] = {(char)('0' + number), '\0'};
    put_opcode(out, '(');
    put_string(out, "storage");
    put_global(out, "torch", storage);
    put_string(out, key);
    put_string(out, "cpu");
    put_int(out, roll(500) ? STORAGE_BYTES / bytes : roll_size());
    if (is_legacy && roll(6) == 0)
        put_view(out, number, STORAGE_BYTES / bytes);
    else if (is_legacy)
        put_opcode(out, 'N');
    put_text(out, "tQ");
}

static void put_tuple(seed_bytes *out, const uint64_t *numbers, unsigned count) {
    put_opcode(out, '(');
    for (unsigned i = 0; i < count; i++)
        put_int(out, numbers[i]);
    put_opcode(out, 't');
}

static void put_tensor(seed_bytes *out) {
    uint64_t shape[4], strides[4], offset = roll(8), room = 24;
    unsigned storage = (unsigned)roll(SEED_STORAGES), rank = (unsigned)roll(5);
    unsigned kind = roll(300) ? kind_of[storage] : (unsigned)roll(KINDS);
    bool newer = is_untyped[storage], parameter = roll(5) == 0;
    for (unsigned i = 0; i < rank; i++) {
        shape[i] = roll(5);
        strides[i] = roll(room / 4 + 1);
        room -= shape[i] ? (shape[i] - 1) * strides[i] : 0;
        if (roll(200) == 0)
            shape[i] = roll_size();
        if (roll(200) == 0)
            strides[i] = roll_size();
    }
    if (parameter) {
        put_global(out, "torch._utils", "_rebuild_parameter");
        put_opcode(out, '(');
    }
    put_global(out, "torch._utils", newer ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
    put_opcode(out, '(');
    put_storage(out, newer ? "UntypedStorage" : kinds[kind].storage, newer ? 1 : kinds[kind].bytes,
                storage);
    put_int(out, roll(200) ? offset : roll_size());
    put_tuple(out, shape, rank);
    put_tuple(out, strides, roll(300) ? rank : (unsigned)roll(5));
    put_opcode(out, '\x89');
    put_empty_dict(out);
    if (newer)
        put_global(out, "torch", kinds[kind].dtype);
    put_text(out, "tR");
    if (parameter) {
        put_opcode(out, '\x88');
        put_empty_dict(out);
        put_text(out, "tR");
    }
}

static void put_value(seed_bytes *out, unsigned depth);

static void put_pairs(seed_bytes *out, unsigned depth) {
    static const char *const keys[] = {"state_dict",  "model",    "ema",     "module",
                                       "w",           "a.b",      "",        "epoch",
                                       "_parameters", "_modules", "\xc3\xbc"};
    put_opcode(out, '(');
    for (uint64_t i = roll(5) + (depth == 0); i > 0; i--) {
        char number[8];
        snprintf(number, sizeof number, "%u", (unsigned)roll(1000));
        put_string(out, roll(2) ? keys[roll(sizeof keys / sizeof keys[0])] : number);
        put_value(out, depth + 1);
    }
    put_opcode(out, 'u');
}

static void put_plain(seed_bytes *out) {
    static const char *const values[] = {"N",
                                         "\x88",
                                         "\x89",
                                         ")",
                                         "]",
                                         "}",
                                         "I12\n",
                                         "I01\n",
                                         "L-5L\n",
                                         "F1.5\n",
                                         "S'a\\x41'\n",
                                         "U\x02zz",
                                         "T\x01\0\0\0z",
                                         "C\x02\xff\xfe",
                                         "\x8f",
                                         "G?\xf0\0\0\0\0\0\0",
                                         "J\xff\xff\xff\xff",
                                         "\x8a\x01\xff",
                                         "\x8b\x02\0\0\0\1\2"};
    static const unsigned char lengths[] = {1, 1, 1, 1, 1, 1, 4, 4, 5, 5,
                                            9, 4, 6, 4, 1, 9, 5, 3, 7};
    size_t i = roll(sizeof lengths);
    put_bytes(out, values[i], lengths[i]);
}

/* An object of a class that is or is not known, with attributes. */
static void put_object(seed_bytes *out, unsigned depth) {
    static const char *const globals[][2] = {{"argparse", "Namespace"},
                                             {"types", "SimpleNamespace"},
                                             {"my_model", "Net"},
                                             {"os", "system"},
                                             {"torch", "Size"},
                                             {"collections", "defaultdict"},
                                             {"builtins", "set"},
                                             {"numpy", "dtype"},
                                             {"torch._utils", "_rebuild_qtensor"}};
    size_t i = roll(8) ? roll(2) : roll(sizeof globals / sizeof globals[0]);
    put_global(out, globals[i][0], globals[i][1]);
    if (roll(2)) {
        put_text(out, roll(2) ? ")\x81" : ")R");
    } else {
        if (roll(4))
            put_plain(out);
        else
            put_value(out, depth + 1);
        put_text(out, roll(2) ? "\x85R" : "\x85\x81");
    }
    if (roll(2)) {
        put_opcode(out, '}');
        put_pairs(out, depth);
        put_opcode(out, 'b');
    }
}

static void put_value(seed_bytes *out, unsigned depth) {
    uint64_t kind = roll(depth < MOST_DEPTH ? 12 : 6);
    if (kind < 4) {
        put_tensor(out);
    } else if (kind < 5) {
        put_plain(out);
    } else if (kind < 6) {
        if (memo_used)
            put_memo_get(out);
        else
            put_opcode(out, 'N');
        return;
    } else if (kind < 8) {
        put_opcode(out, '}');
        put_memo(out);
        put_pairs(out, depth);
    } else if (kind < 9) {
        put_empty_dict(out);
        put_memo(out);
        put_pairs(out, depth);
    } else if (kind < 11) {
        put_text(out, kind == 9 ? "](" : "(");
        for (uint64_t i = roll(4); i > 0; i--)
            put_value(out, depth + 1);
        put_opcode(out, kind == 9 ? 'e' : 't');
    } else {
        put_object(out, depth);
    }
    put_memo(out);
}

void put_pickle(seed_bytes *out, bool legacy) {
    is_legacy = legacy;
    memo_used = 0;
    for (unsigned i = 0; i < SEED_STORAGES; i++) {
        kind_of[i] = legacy ? i : (unsigned)roll(KINDS); /* put_legacy counts their elements */
        is_untyped[i] = !legacy && roll(3) == 0;
    }
    put_opcode(out, '\x80');
    put_number(out, 2 + roll(4), 1);
    for (unsigned i = 0; legacy && i < SEED_STORAGES && roll(100); i++) { /* name each of them */
        put_storage(out, kinds[i].storage, kinds[i].bytes, i);
        put_opcode(out, '0');
    }
    if (roll(3) == 0)
        put_value(out, 0);
    else {
        put_opcode(out, '}');
        put_pairs(out, 0);
    }
    put_opcode(out, '.');
}

/* Zip archives */

static uint32_t crc32_of(const unsigned char *data, size_t size) {
    static uint32_t table[256];
    for (uint32_t i = 0; i < 256 && !table[255]; i++) {
        uint32_t x = i;
        for (unsigned k = 0; k < 8; k++)
            x = x >> 1 ^ (x & 1 ? UINT32_C(0xedb88320) : 0);
        table[i] = x;
    }
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++)
        crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
    return ~crc;
}

static void put_local(seed_bytes *out, const char *name, const void *data, size_t size) {
    put_bytes(out, "PK\3\4\x2d\0\0\0\0\0\0\0\0\0", 14);
    put_number(out, crc32_of(data, size), 4);
    put_number(out, size, 4);
    put_number(out, size, 4);
    put_number(out, strlen(name), 2);
    put_number(out, 0, 2);
    put_text(out, name);
    put_bytes(out, data, size);
}

typedef struct seed_entry {
    char name[64];
    size_t at, size;
    uint32_t crc;
} seed_entry;

static void put_directory_entry(seed_bytes *out, const seed_entry *entry, bool large) {
    put_bytes(out, "PK\1\2\x2d\0\x2d\0\0\0\0\0\0\0\0\0", 16);
    put_number(out, entry->crc, 4);
    put_number(out, large ? UINT32_MAX : entry->size, 4);
    put_number(out, large ? UINT32_MAX : entry->size, 4);
    put_number(out, strlen(entry->name), 2);
    put_number(out, large ? 28 : 0, 2);
    put_number(out, 0, 2 + 2 + 2);
    put_number(out, 0, 4);
    put_number(out, large ? UINT32_MAX : entry->at, 4);
    put_text(out, entry->name);
    if (!large)
        return;
    put_bytes(out, "\1\0\x18\0", 4);
    put_number(out, entry->size, 8);
    put_number(out, entry->size, 8);
    put_number(out, entry->at, 8);
}

static void put_directory(seed_bytes *out, const seed_entry *entries, unsigned count) {
    size_t directory = out->size;
    bool large = roll(4) == 0;
    for (unsigned i = 0; i < count; i++)
        put_directory_entry(out, &entries[i], roll(4) == 0);
    size_t end = out->size;
    if (large) {
        put_bytes(out, "PK\6\6\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0\0\0\0\0\0\0\0\0", 24);
        put_number(out, count, 8);
        put_number(out, count, 8);
        put_number(out, end - directory, 8);
        put_number(out, directory, 8);
        put_bytes(out, "PK\6\7\0\0\0\0", 8);
        put_number(out, end, 8);
        put_number(out, 1, 4);
    }
    put_bytes(out, "PK\5\6\0\0\0\0", 8);
    put_number(out, large ? UINT16_MAX : count, 2);
    put_number(out, large ? UINT16_MAX : count, 2);
    put_number(out, large ? UINT32_MAX : end - directory, 4);
    put_number(out, large ? UINT32_MAX : directory, 4);
    put_number(out, 0, 2);
}

void put_zip(seed_bytes *out, const seed_bytes *pickle) {
    static const unsigned char zeros[STORAGE_BYTES];
    seed_entry entries[SEED_STORAGES + 2];
    unsigned count = 0;
    for (unsigned i = 0; i < SEED_STORAGES + 2; i++) {
        seed_entry *entry = &entries[count++];
        const void *data = i == 0   ? (const void *)pickle->at
                           : i == 1 ? (const void *)"little"
                                    : zeros;
        entry->size = i == 0 ? pickle->size : i == 1 ? 6 : STORAGE_BYTES;
        if (i < 2)
            snprintf(entry->name, sizeof entry->name, "archive/%s", i ? "byteorder" : "data.pkl");
        else
            snprintf(entry->name, sizeof entry->name, "archive/data/%u", i - 2);
        entry->at = out->size;
        entry->crc = crc32_of(data, entry->size);
        put_local(out, entry->name, data, entry->size);
    }
    put_directory(out, entries, count);
}

/* The form before torch 1.6 */

void put_legacy(seed_bytes *out, const seed_bytes *pickle) {
    static const unsigned char zeros[STORAGE_BYTES];
    unsigned first = (unsigned)roll(SEED_STORAGES); /* the keys are in any order */
    put_bytes(out, "\x80\2\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
    put_bytes(out, "\x80\2M\xe9\3.", 6);
    put_bytes(
        out,
        "\x80\2}(X\x10\0\0\0protocol_versionM\xe9\3X\x0d\0\0\0little_endian\x88X\x0a\0\0\0type_"
        "sizes}(X\5\0\0\0shortK\2X\3\0\0\0intK\4X\4\0\0\0longK\4uu.",
        100);
    put_bytes(out, pickle->at, pickle->size);
    put_bytes(out, "\x80\2](", 4);
    for (unsigned i = 0; i < SEED_STORAGES; i++) {
        put_bytes(out, "X\1\0\0\0", 5);
        put_number(out, '0' + (roll(200) ? (i + first) % SEED_STORAGES : roll(5)), 1);
    }
    put_bytes(out, "e.", 2);
    for (unsigned i = 0; i < SEED_STORAGES; i++) {
        unsigned which = (i + first) % SEED_STORAGES;
        put_number(out, roll(200) ? STORAGE_BYTES / kinds[which].bytes : roll_size(), 8);
        put_bytes(out, zeros, STORAGE_BYTES);
    }
    if (roll(50) == 0)
        put_bytes(out, zeros, 1 + roll(20));
}
