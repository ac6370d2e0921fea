/* The index of a sharded model: any bytes, strict and lenient. */
#include "fuzz.h"
#include "format/json.h"

static const tmi_hash_key index_key = {
    {UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xd1b54a32d192ed03)}};

static bool parse(tmi_index *index, const uint8_t *data, size_t size, uint32_t flags) {
    tmi_place place = {
        .path = "folder/m\x1b\xff.json", .flags = flags, .size = size, .key = index_key};
    tmi_block text;
    tenmap_error error;
    if (!tmi_block_alloc(&text, size + TMI_JSON_PAD))
        abort();
    memcpy(text.bytes, data, size);
    fuzz_error_arm(&error);
    tenmap_status status = tmi_index_parse(index, &place, text, size, &error);
    fuzz_error_check(&error, status);
    if (status != TENMAP_OK) {
        CHECK(status == TENMAP_ERR_FORMAT && error.offset <= size && error.shard == 0);
        CHECK(!index->listings && !index->files && !index->text.bytes && !index->names.slots);
    }
    return status == TENMAP_OK;
}

/* A name must stay inside the index's folder, on whichever system it becomes a path. */
static void check_safe(const tmi_listed_file *file, bool lenient) {
    CHECK(file->name_len > 0 && file->name[file->name_len] == '\0');
    CHECK(strlen(file->name) == file->name_len);
    CHECK(fuzz_utf8(file->name, file->name_len) == file->name_len);
    CHECK(!strchr(file->name, '\\') && file->name[0] != '/');
    CHECK(lenient || !strchr(file->name, '/'));
    char *copy = tmi_copy_text(file->name, file->name_len);
    for (char *part = copy, *next; part; part = next) {
        next = strchr(part, '/');
        if (next)
            *next++ = '\0';
        CHECK(strcmp(part, "") != 0 && strcmp(part, ".") != 0 && strcmp(part, "..") != 0);
    }
    free(copy);
}

static void check_index(const tmi_index *index, size_t size, bool lenient) {
    const char *text = index->text.bytes;
    CHECK(index->listing_count > 0 && index->file_count > 0);
    CHECK(index->file_count <= index->listing_count);
    bool *used = calloc(index->file_count, sizeof *used);
    for (size_t i = 0; i < index->file_count; i++) {
        check_safe(&index->files[i], lenient);
        if (i > 0) /* no NUL inside, so strcmp is the order of the bytes */
            CHECK(strcmp(index->files[i - 1].name, index->files[i].name) < 0);
    }
    for (size_t i = 0; i < index->listing_count; i++) {
        const tmi_listing *l = &index->listings[i];
        CHECK(l->name > text && l->name + l->name_len < text + size &&
              l->name[l->name_len] == '\0');
        CHECK(fuzz_utf8(l->name, l->name_len) == l->name_len);
        CHECK(l->file < index->file_count && !l->seen);
        used[l->file] = true;
        uint64_t hash = tmi_hash(&index_key, l->name, l->name_len);
        CHECK(tmi_names_find(&index->names, l->name, l->name_len, hash) == i);
    }
    for (size_t i = 0; i < index->file_count; i++)
        CHECK(used[i]);
    free(used);
}

/* The quick pass accepts nothing that the full pass refuses, except names that are listed twice. */
static void check_quick(const uint8_t *data, size_t size, const tmi_index *full, bool opens) {
    tmi_place place = {.path = "i.json", .size = size, .key = index_key};
    tmi_outline outline;
    bool done, twice = false;
    char *text = calloc(size + TMI_JSON_PAD, 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    CHECK(tmi_index_quick(&outline, &place, text, size, &done, NULL) == TENMAP_OK);
    CHECK(memcmp(text, data, size) == 0);
    for (size_t i = 0; done && !opens && i < outline.count && !twice; i++)
        for (size_t k = 0; k < i && !twice; k++)
            twice = outline.lines[i].name_len == outline.lines[k].name_len &&
                    memcmp(outline.lines[i].name, outline.lines[k].name,
                           outline.lines[k].name_len) == 0;
    CHECK(!done || opens || twice);
    CHECK(!done || !opens || outline.count == full->listing_count);
    for (size_t i = 0; done && opens && i < outline.count; i++) {
        const tmi_line *line = &outline.lines[i];
        CHECK(line->name_len == full->listings[i].name_len);
        CHECK(memcmp(line->name, full->listings[i].name, line->name_len) == 0);
        CHECK(outline.place_of[line->file] == full->listings[i].file);
    }
    tmi_outline_free(&outline);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tmi_index strict, lenient, paired;
    bool strict_opens = parse(&strict, data, size, 0);
    bool lenient_opens = parse(&lenient, data, size, TENMAP_OPEN_LENIENT);
    CHECK(lenient_opens || !strict_opens);
    CHECK(parse(&paired, data, size, TENMAP_OPEN_ALIASES) == strict_opens); /* keeps more */
    if (strict_opens)
        tmi_index_free(&paired);
    check_quick(data, size, &strict, strict_opens);
    if (strict_opens) {
        check_index(&strict, size, false);
        CHECK(tmi_index_recognize(data, size < TMI_START ? size : TMI_START, size) ||
              tmi_json_is_space((char)data[0]));
        CHECK(strict.listing_count == lenient.listing_count);
        CHECK(strict.file_count == lenient.file_count);
        for (size_t i = 0; i < strict.listing_count; i++)
            CHECK(strict.listings[i].file == lenient.listings[i].file);
    }
    if (lenient_opens)
        check_index(&lenient, size, true);
    if (strict_opens)
        tmi_index_free(&strict);
    if (lenient_opens)
        tmi_index_free(&lenient);
    return 0;
}
