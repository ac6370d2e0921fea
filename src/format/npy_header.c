/*
 * Parses the header of a .npy array: magic, version and length, then a dict that is written as a
 * Python literal, {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. Takes what numpy and
 * other writers of the format write, not all of Python's syntax, and evaluates nothing.
 */
#include "numpy.h"

#include <stdio.h>

enum { MAGIC_BYTES = 6, LONG_LENGTH_SINCE = 2, TEXT_SINCE = 3 };

typedef struct npy_reader {
    const unsigned char *bytes;
    size_t at, len;
    unsigned version;
    tmi_npy_header *npy;
    tmi_npy_problem *problem;
} npy_reader;

static bool npy_fails(tmi_npy_problem *problem, tenmap_status status, uint32_t code,
                      uint32_t remedy, uint64_t at) {
    problem->status = status;
    problem->code = code;
    problem->remedy = remedy;
    problem->at = at;
    return false;
}

/* The header breaks a rule of the format at byte `at`. */
#define NPY_BROKEN(problem, at, ...)                                                               \
    (snprintf((problem)->text, sizeof(problem)->text, __VA_ARGS__),                                \
     npy_fails(problem, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, TENMAP_REMEDY_NONE, at))
/* The array is one that numpy can have, and this library cannot. */
#define NPY_FOREIGN(r, at, ...)                                                                    \
    (snprintf((r)->problem->text, sizeof(r)->problem->text, __VA_ARGS__),                          \
     npy_fails((r)->problem, TENMAP_ERR_UNSUPPORTED, TENMAP_FOUND_FOREIGN, TENMAP_REMEDY_CONVERT,  \
               at))

bool tmi_npy_is_magic(const unsigned char *start, uint64_t len) {
    return len >= MAGIC_BYTES && memcmp(start, "\x93NUMPY", MAGIC_BYTES) == 0;
}

bool tmi_npy_measure(const unsigned char *start, uint64_t len, uint64_t *length,
                     tmi_npy_problem *problem) {
    if (!tmi_npy_is_magic(start, len))
        return NPY_BROKEN(problem, 0,
                          "it does not begin with \\x93NUMPY, as every .npy array does");
    unsigned major = len > MAGIC_BYTES + 1 ? start[MAGIC_BYTES] : 1;
    unsigned minor = len > MAGIC_BYTES + 1 ? start[MAGIC_BYTES + 1] : 0;
    if (major < 1 || major > TEXT_SINCE || minor != 0) {
        snprintf(problem->text, sizeof problem->text,
                 "it has version %u.%u of the .npy format, which nothing defines; 1.0, 2.0 and 3.0 "
                 "can be read",
                 major, minor);
        return npy_fails(problem, TENMAP_ERR_UNSUPPORTED, TENMAP_FOUND_FOREIGN,
                         TENMAP_REMEDY_CONVERT, MAGIC_BYTES);
    }
    bool wide = major >= LONG_LENGTH_SINCE;
    if (len < (wide ? TMI_NPY_FIRST : TMI_NPY_LEAST)) {
        snprintf(problem->text, sizeof problem->text,
                 "the length of its header should be at byte 8, but only %llu bytes are there: it "
                 "is truncated",
                 (ull)len);
        return npy_fails(problem, TENMAP_ERR_FORMAT, TENMAP_FOUND_TRUNCATED,
                         TENMAP_REMEDY_FETCH_AGAIN, len);
    }
    *length = start[8] | (uint32_t)start[9] << 8;
    if (wide)
        *length |= (uint64_t)start[10] << 16 | (uint64_t)start[11] << 24;
    *length += wide ? TMI_NPY_FIRST : TMI_NPY_LEAST;
    return true;
}

/* Tokens. */

static void skip_npy_space(npy_reader *r) {
    while (r->at < r->len && (r->bytes[r->at] == ' ' || r->bytes[r->at] == '\t' ||
                              r->bytes[r->at] == '\n' || r->bytes[r->at] == '\r'))
        r->at++;
}

/* The character after white space; 0 at the end. */
static unsigned char npy_next(npy_reader *r) {
    skip_npy_space(r);
    return r->at < r->len ? r->bytes[r->at] : 0;
}

/* Fails because something else was expected at the current place. */
static bool npy_expected(npy_reader *r, const char *what) {
    if (r->at >= r->len)
        return NPY_BROKEN(r->problem, r->at, "its header ends at byte %zu, where %s should be",
                          r->at, what);
    size_t shown = r->len - r->at < 12 ? r->len - r->at : 12;
    return NPY_BROKEN(r->problem, r->at, "header, byte %zu: expected %s, found %s", r->at, what,
                      tmi_quote((const char *)r->bytes + r->at, shown).text);
}

static bool npy_take(npy_reader *r, char wanted, const char *what) {
    if (npy_next(r) != (unsigned char)wanted)
        return npy_expected(r, what);
    r->at++;
    return true;
}

/* A string in single or double quotes, without escapes. */
static bool npy_text(npy_reader *r, const char *what, const char **text, size_t *len) {
    unsigned char quote = npy_next(r);
    if (quote != '\'' && quote != '"')
        return npy_expected(r, what);
    size_t begin = ++r->at;
    while (r->at < r->len && r->bytes[r->at] != quote) {
        unsigned char c = r->bytes[r->at];
        if (c == '\\' || c < ' ' || c > '~')
            return npy_expected(r, "a string of plain ASCII characters without escapes");
        r->at++;
    }
    if (r->at >= r->len)
        return npy_expected(r, "the end of a string");
    *text = (const char *)r->bytes + begin;
    *len = r->at++ - begin;
    return true;
}

static bool npy_word(npy_reader *r, const char *word) {
    size_t len = strlen(word);
    if (r->len - r->at < len || memcmp(r->bytes + r->at, word, len) != 0)
        return false;
    r->at += len;
    return true;
}

/* The fields. */

static const struct {
    const char *type; /* without the byte order */
    tenmap_dtype dtype;
} npy_dtypes[] = {
    {"b1", TENMAP_BOOL}, {"i1", TENMAP_I8},  {"u1", TENMAP_U8},  {"i2", TENMAP_I16},
    {"u2", TENMAP_U16},  {"i4", TENMAP_I32}, {"u4", TENMAP_U32}, {"i8", TENMAP_I64},
    {"u8", TENMAP_U64},  {"f2", TENMAP_F16}, {"f4", TENMAP_F32}, {"f8", TENMAP_F64},
    {"c8", TENMAP_C64},
};

/* What the first letter of a dtype without a counterpart says, and what to do about it. */
static const struct {
    char letter;
    const char *text;
} npy_kinds[] = {
    {'O', "it holds Python objects, which only running a pickle would make: save arrays of numbers "
          "instead"},
    {'S', "it holds strings: save numbers instead"},
    {'a', "it holds strings: save numbers instead"},
    {'U', "it holds strings: save numbers instead"},
    {'V', "numpy stores raw bytes here and not what they mean (the bfloat16 and 8-bit floats of "
          "ml_dtypes are saved like this): save x.astype('<f4'), or the bits as x.view('<u2') or "
          "x.view('u1')"},
    {'M', "it holds dates: save x.view('<i8') instead"},
    {'m', "it holds spans of time: save x.view('<i8') instead"},
    {'c', "no dtype here has complex numbers of that size: save x.astype('<c8') instead"},
    {'f', "no dtype here has floats of that size (1: a float of ml_dtypes; over 8: a long double): "
          "save x.astype('<f4') or x.astype('<f8') instead"},
};

/* The rest of the dtype names no dtype that this library has. */
static bool npy_unknown_dtype(npy_reader *r, size_t at, const char *descr, size_t len,
                              char letter) {
    for (size_t i = 0; i < sizeof npy_kinds / sizeof npy_kinds[0]; i++)
        if (letter == npy_kinds[i].letter)
            return NPY_FOREIGN(r, at, "dtype %s: %s", tmi_quote(descr, len).text,
                               npy_kinds[i].text);
    return NPY_BROKEN(r->problem, at, "header, byte %zu: unknown dtype %s", at,
                      tmi_quote(descr, len).text);
}

static bool npy_dtype_text(npy_reader *r, size_t at, const char *descr, size_t len) {
    char order = len && strchr("<>|=", descr[0]) ? descr[0] : 0;
    const char *type = descr + (order != 0);
    size_t type_len = len - (order != 0);
    for (size_t i = 0; i < sizeof npy_dtypes / sizeof npy_dtypes[0]; i++) {
        if (type_len != 2 || memcmp(type, npy_dtypes[i].type, 2) != 0)
            continue;
        if (type[1] != '1' && order == '>')
            return NPY_FOREIGN(r, at,
                               "dtype %s: its elements are big-endian: save it again with "
                               "x.astype('<%s')",
                               tmi_quote(descr, len).text, npy_dtypes[i].type);
        if (type[1] != '1' && order != '<')
            return NPY_FOREIGN(r, at,
                               "dtype %s: it does not say in which order the bytes of its elements "
                               "are: save it again with x.astype('<%s')",
                               tmi_quote(descr, len).text, npy_dtypes[i].type);
        r->npy->dtype = npy_dtypes[i].dtype;
        return true;
    }
    return npy_unknown_dtype(r, at, descr, len, type_len ? type[0] : 0);
}

static bool take_npy_descr(npy_reader *r) {
    const char *descr;
    size_t len;
    unsigned char c = npy_next(r);
    size_t at = r->at;
    if (c == '[')
        return NPY_FOREIGN(r, at,
                           "it is a structured array, whose elements are records: save each field "
                           "as an array of its own (x['field'])");
    if (c == '(')
        return NPY_FOREIGN(r, at,
                           "its dtype is an array of another dtype: save an array of numbers "
                           "instead");
    return npy_text(r, "the dtype as a string", &descr, &len) && npy_dtype_text(r, at, descr, len);
}

static bool take_npy_order(npy_reader *r) {
    (void)npy_next(r);
    r->npy->fortran = npy_word(r, "True");
    return r->npy->fortran || npy_word(r, "False") || npy_expected(r, "True or False");
}

static bool take_npy_number(npy_reader *r, uint64_t *number) {
    unsigned char c = npy_next(r);
    size_t begin = r->at;
    *number = 0;
    if (c == '-')
        return npy_expected(r, "a dimension, which is not negative");
    for (; r->at < r->len && r->bytes[r->at] >= '0' && r->bytes[r->at] <= '9'; r->at++) {
        unsigned digit = r->bytes[r->at] - (unsigned)'0';
        if (*number > (UINT64_MAX - digit) / 10)
            return NPY_BROKEN(r->problem, begin,
                              "header, byte %zu: a dimension does not fit into 64 bits", begin);
        *number = *number * 10 + digit;
    }
    if (r->at == begin || (r->bytes[begin] == '0' && r->at - begin > 1)) {
        r->at = begin;
        return npy_expected(r, "a dimension");
    }
    if (r->version < TEXT_SINCE) /* Python 2 wrote 3L, before there was version 3 */
        (void)npy_word(r, "L");
    return true;
}

/* A tuple: (), (3,), (3, 4) or (3, 4, ). */
static bool take_npy_shape(npy_reader *r) {
    tmi_npy_header *npy = r->npy;
    bool comma = true;
    if (!npy_take(r, '(', "the shape as a tuple"))
        return false;
    while (npy_next(r) != ')') {
        if (!comma)
            return npy_expected(r, "',' or ')' in the shape");
        if (npy->rank == TMI_NPY_MOST_RANK)
            return NPY_BROKEN(r->problem, r->at,
                              "header, byte %zu: it has more than %d dimensions, which numpy does "
                              "not have",
                              r->at, TMI_NPY_MOST_RANK);
        if (!take_npy_number(r, &npy->shape[npy->rank++]))
            return false;
        comma = npy_next(r) == ',';
        r->at += comma;
    }
    if (npy->rank == 1 && !comma)
        return npy_expected(r, "',' after the only dimension, as in a tuple");
    r->at++;
    return true;
}

static const struct {
    const char *key;
    bool (*take)(npy_reader *r);
} npy_fields[] = {
    {"descr", take_npy_descr}, {"fortran_order", take_npy_order}, {"shape", take_npy_shape}};

enum { NPY_FIELDS = sizeof npy_fields / sizeof npy_fields[0] };

static bool take_npy_field(npy_reader *r, bool *taken) {
    const char *key;
    size_t len, at;
    (void)npy_next(r);
    at = r->at;
    if (!npy_text(r, "the name of a field in quotes, or '}'", &key, &len) ||
        !npy_take(r, ':', "':' after the name of a field"))
        return false;
    for (size_t i = 0; i < NPY_FIELDS; i++) {
        if (len != strlen(npy_fields[i].key) || memcmp(key, npy_fields[i].key, len) != 0)
            continue;
        if (taken[i])
            return NPY_BROKEN(r->problem, at, "header, byte %zu: the field %s appears twice", at,
                              npy_fields[i].key);
        taken[i] = true;
        return npy_fields[i].take(r);
    }
    return NPY_BROKEN(r->problem, at,
                      "header, byte %zu: unknown field %s; a .npy array has descr, fortran_order "
                      "and shape",
                      at, tmi_quote(key, len).text);
}

bool tmi_npy_parse(const unsigned char *header, size_t length, tmi_npy_header *npy,
                   tmi_npy_problem *problem) {
    npy_reader r = {.bytes = header, .len = length, .npy = npy, .problem = problem};
    bool taken[NPY_FIELDS] = {false}, comma = true;
    r.version = header[MAGIC_BYTES];
    r.at = r.version >= LONG_LENGTH_SINCE ? TMI_NPY_FIRST : TMI_NPY_LEAST;
    npy->rank = 0;
    if (!npy_take(&r, '{', "a dict as Python writes it"))
        return false;
    while (npy_next(&r) != '}') {
        if (!comma)
            return npy_expected(&r, "',' or '}' after a field");
        if (!take_npy_field(&r, taken))
            return false;
        comma = npy_next(&r) == ',';
        r.at += comma;
    }
    r.at++;
    for (size_t i = 0; i < NPY_FIELDS; i++)
        if (!taken[i])
            return NPY_BROKEN(problem, r.at, "header: the field %s is missing", npy_fields[i].key);
    skip_npy_space(&r);
    return r.at == r.len || npy_expected(&r, "nothing but white space after the dict");
}
