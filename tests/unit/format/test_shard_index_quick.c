/*
 * The quick pass over usual indexes accepts a subset of what shard_index.c accepts, with the same
 * lines. Models that are opened with it are the same as without it, and those that do not open fail
 * with the same message. Indexes and models are written in the usual way, most are then damaged a
 * little, and both passes judge them.
 */
#include "damage.h"
#include "model/model.h"
#include "format/json.h"
#include "support.h"

enum { INDEXES = 20000, MODELS = 400, TEXT = 1 << 16, SHARDS = 5, TENSORS = 40 };

static char text[TEXT];

static const char *blanks(void) {
    static const char *const some[] = {"", "", " ", "\n    ", "\t\r\n"};
    return some[pick(COUNT(some))];
}

/* An index as writers write it, with `lines` lines; returns its length. */
static size_t print_index(size_t lines) {
    static const char *const metadata[] = {"\"metadata\": {\"total_size\": 123, \"a\" :\"b\"},",
                                           "\"metadata\":{},", "",
                                           "\"metadata\":{\"total_size\":1.5},"};
    const char *before = blanks();
    size_t used = (size_t)sprintf(text, "{%s%s\"weight_map\"%s:{", before,
                                  metadata[pick(COUNT(metadata))], blanks());
    for (size_t i = 0; i < lines; i++)
        used += (size_t)sprintf(text + used, "%s%s\"layer.%zu.%.*s\":%s\"m-%zu.safetensors\"",
                                i ? "," : "", before, i, (int)pick(20), "weight_scale_inverse",
                                blanks(), pick(4));
    used += (size_t)sprintf(text + used, "%s}%s}\n", before, before);
    return used;
}

static void assert_same_index(const tmi_outline *quick, const tmi_index *full) {
    assert_int_equal(quick->count, full->listing_count);
    assert_int_equal(quick->file_count, full->file_count);
    size_t lines = 0;
    for (size_t i = 0; i < quick->file_count; i++) {
        assert_int_equal(quick->files[i].listed.name_len, full->files[i].name_len);
        assert_memory_equal(quick->files[i].listed.name, full->files[i].name,
                            full->files[i].name_len);
        lines += quick->files[i].lines;
    }
    assert_int_equal(lines, quick->count);
    for (size_t i = 0; i < quick->count; i++) {
        const tmi_line *line = &quick->lines[i];
        assert_int_equal(line->name_len, full->listings[i].name_len);
        assert_memory_equal(line->name, full->listings[i].name, line->name_len);
        assert_int_equal(quick->place_of[line->file], full->listings[i].file);
    }
}

/* Runs both passes on the text; returns whether the quick pass accepted it. */
static bool judge(size_t length, uint32_t flags) {
    tmi_place place = {.path = "i.json", .flags = flags, .size = length, .key = {{1, 2}}};
    tmi_block as_read, copy;
    tmi_outline quick;
    tmi_index full;
    tenmap_error error;
    bool done;
    assert_true(tmi_block_alloc(&as_read, length + TMI_JSON_PAD));
    assert_true(tmi_block_alloc(&copy, length + TMI_JSON_PAD));
    memcpy(as_read.bytes, text, length);
    memcpy(copy.bytes, text, length);
    assert_int_equal(tmi_index_quick(&quick, &place, as_read.bytes, length, &done, NULL),
                     TENMAP_OK);
    assert_memory_equal(as_read.bytes, text, length);
    tenmap_status status = tmi_index_parse(&full, &place, copy, length, &error);
    if (done && status == TENMAP_OK)
        assert_same_index(&quick, &full);
    if (done && status != TENMAP_OK) /* the one rule that the quick pass does not check */
        assert_non_null(strstr(error.message, "appears twice in weight_map"));
    if (status == TENMAP_OK)
        tmi_index_free(&full);
    tmi_outline_free(&quick);
    tmi_block_free(&as_read);
    return done;
}

static void quick_and_full_agree_about_damaged_indexes(void **state) {
    (void)state;
    size_t taken = 0;
    random_state = 88172645463325252;
    for (size_t i = 0; i < INDEXES; i++) {
        size_t length = print_index(1 + pick(12));
        for (size_t times = pick(3); times > 0; times--)
            length = damage(text, length, 60, "0 1\"]}\\,/");
        taken += judge(length, pick(2) ? TENMAP_OPEN_LENIENT : 0);
    }
    print_message("           %zu of %d were taken quickly\n", taken, (int)INDEXES);
    assert_true(taken > INDEXES / 8);
}

static void usual_indexes_are_taken_quickly(void **state) {
    static const char *const usual[] = {
        "{\n  \"metadata\": {\n    \"total_size\": 9\n  },\n  \"weight_map\": {\n"
        "    \"a\": \"m-00001-of-00002.safetensors\",\n    \"b\": "
        "\"m-00002-of-00002.safetensors\"\n"
        "  }\n}\n",
        "{\"metadata\":{\"total_parameters\":1,\"total_size\":9},\"weight_map\":{\"a\":\"m\"}}",
        "{\"metadata\": {}, \"weight_map\": {\"a\": \"m\"}}",
        "{\"weight_map\":{\"a\":\"m\"},\"metadata\":{\"format\":\"pt\"}}"};
    static const char *const others[] = {
        "{\"weight_map\":{\"a\":\"m\"},\"more\":1}",
        "{\"weight_map\":{}}",
        "{}",
        "",
        "{\"weight_map\":{\"\\u0061\":\"m\"}}",
        "{\"weight_map\":{\"\xc3\xa4\":\"m\"}}",
        "{\"weight_map\":{\"a\":\"../m\"}}",
        "{\"weight_map\":{\"a\":\"m\"}} x",
        "{\"weight_map\":{\"a\":\"m\"},\"weight_map\":{\"b\":\"m\"}}"};
    (void)state;
    for (size_t i = 0; i < COUNT(usual); i++) {
        strcpy(text, usual[i]);
        assert_true(judge(strlen(text), 0));
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        strcpy(text, others[i]);
        assert_false(judge(strlen(text), 0));
    }
}

/* Models: which tensors are in which shard and in which line; numbers are names. */
typedef struct plan {
    size_t held[SHARDS][TENSORS], count[SHARDS];
    size_t listed[2 * TENSORS], file[2 * TENSORS], lines;
} plan;

static void make_plan(plan *p) {
    size_t tensors = 1 + pick(TENSORS - 8), at = 0;
    *p = (plan){.lines = tensors};
    for (size_t t = 0; t < tensors; t++) {
        if (at + 1 < SHARDS && pick(6) == 0)
            at++;
        p->held[at][p->count[at]++] = t;
        p->listed[t] = t;
        p->file[t] = at;
    }
    for (size_t i = tensors; i > 1 && pick(2); i--) { /* the index in another order */
        size_t j = pick(i), listed = p->listed[j], file = p->file[j];
        p->listed[j] = p->listed[i - 1];
        p->file[j] = p->file[i - 1];
        p->listed[i - 1] = listed;
        p->file[i - 1] = file;
    }
}

/* Makes the shards and the index disagree, or hold something twice. */
static void spoil_plan(plan *p) {
    size_t s = pick(SHARDS), line = pick(p->lines);
    switch (pick(7)) {
    case 0: /* in a shard and in no line, or in two shards, or twice in one */
        p->held[s][p->count[s]++] = pick(TENSORS);
        break;
    case 1:
        if (p->count[s])
            p->count[s]--;
        break;
    case 2:
        p->file[line] = s;
        break;
    case 3:
        p->listed[line] = pick(TENSORS);
        break;
    case 4: /* twice in the index */
        p->listed[p->lines] = p->listed[line];
        p->file[p->lines++] = pick(2) ? p->file[line] : s;
        break;
    case 5:
        if (p->lines > 1)
            p->lines--;
        break;
    default:
        if (p->count[s]) /* another in its place */
            p->held[s][pick(p->count[s])] = pick(TENSORS);
    }
}

static void write_shard(void **state, const plan *p, size_t s) {
    char name[32], json[8192] = "{";
    size_t used = 1, odd = pick(5); /* a blank makes a header that the quick pass refuses */
    for (size_t i = 0; i < p->count[s]; i++) {
        size_t place = odd == 1 ? p->count[s] - 1 - i : i; /* or one that is out of order */
        used += (size_t)sprintf(json + used,
                                "%s\"t.%zu\":%s{\"dtype\":\"U8\",\"shape\":[1],"
                                "\"data_offsets\":[%zu,%zu]}",
                                i ? "," : "", p->held[s][i], odd == 0 ? " " : "", place, place + 1);
    }
    strcat(json, "}");
    snprintf(name, sizeof name, "m-%zu", s);
    write_model(in_folder(state, name), json, p->count[s] + (pick(40) == 0)); /* or too long */
}

static void write_plan(void **state, const plan *p) {
    size_t used = (size_t)sprintf(text, "{\"weight_map\":{");
    for (size_t i = 0; i < p->lines; i++)
        used += (size_t)sprintf(text + used, "%s\"t.%zu\":\"m-%zu\"", i ? "," : "", p->listed[i],
                                p->file[i]);
    strcat(text, "}}");
    write_text(in_folder(state, "i.json"), text);
    for (size_t s = 0; s < SHARDS; s++)
        if (pick(60))
            write_shard(state, p, s);
        else
            remove(in_folder(state, (const char[]){'m', '-', (char)('0' + s), '\0'}));
}

static void assert_same_model(const tenmap_model *a, const tenmap_model *b) {
    assert_int_equal(tenmap_count(a), tenmap_count(b));
    assert_int_equal(tenmap_shard_count(a), tenmap_shard_count(b));
    assert_int_equal(tenmap_missing_count(a), tenmap_missing_count(b));
    assert_int_equal(tenmap_listed_count(a), tenmap_listed_count(b));
    assert_int_equal(tenmap_file_size(a), tenmap_file_size(b));
    assert_string_equal(tenmap_index_json(a, NULL), tenmap_index_json(b, NULL));
    for (size_t i = 0; i < tenmap_count(a); i++) {
        const tenmap_tensor *x = tenmap_at(a, i), *y = tenmap_at(b, i);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->shard, y->shard);
        assert_int_equal(x->file_offset, y->file_offset);
        assert_int_equal(x->header_position, y->header_position);
        assert_ptr_equal(tenmap_find(a, y->name), x);
        assert_ptr_equal(x->model, a);
        assert_string_equal(tenmap_at_written(a, i)->name, tenmap_at_written(b, i)->name);
    }
    for (size_t i = 0; i < tenmap_shard_count(a); i++) {
        const tenmap_shard *x = tenmap_shard_at(a, i), *y = tenmap_shard_at(b, i);
        assert_string_equal(x->path, y->path);
        assert_int_equal(x->first_tensor, y->first_tensor);
        assert_int_equal(x->tensor_count, y->tensor_count);
    }
    for (size_t i = 0; i < tenmap_listed_count(a); i++) {
        const char *name = tenmap_listed_at(a, i);
        assert_string_equal(name, tenmap_listed_at(b, i));
        assert_string_equal(tenmap_shard_listed(a, name), tenmap_shard_listed(b, name));
    }
    assert_null(tenmap_listed_at(a, tenmap_listed_count(a)));
    assert_null(tenmap_shard_listed(a, "none"));
}

/*
 * Opens the model with the quick pass and, by asking for aliases, without it; returns whether it
 * opens.
 */
static bool open_both(const char *path, uint32_t flags) {
    tenmap_options quick = TENMAP_OPTIONS_INIT, full;
    tenmap_model *a, *b;
    tenmap_error said, also_said;
    quick.threads = 1 + (uint32_t)pick(3);
    quick.flags = flags;
    full = quick;
    full.flags |= TENMAP_OPEN_ALIASES;
    tenmap_status status = tenmap_open(path, &quick, &a, &said);
    assert_int_equal(tenmap_open(path, &full, &b, &also_said), status);
    if (status == TENMAP_OK) {
        assert_same_model(a, b);
    } else {
        assert_string_equal(said.message, also_said.message);
        assert_int_equal(said.shard, also_said.shard);
        assert_int_equal(said.offset, also_said.offset);
    }
    tenmap_close(a);
    tenmap_close(b);
    return status == TENMAP_OK;
}

static void models_are_the_same_by_either_way(void **state) {
    static const uint32_t flags[] = {0, TENMAP_OPEN_PARTIAL, TENMAP_OPEN_STALE_INDEX,
                                     TENMAP_OPEN_LENIENT | TENMAP_OPEN_PARTIAL};
    size_t opened = 0;
    plan p;
    random_state = 362436069362436069;
    for (size_t i = 0; i < MODELS; i++) {
        make_plan(&p);
        for (size_t times = pick(3); times > 0; times--)
            spoil_plan(&p);
        write_plan(state, &p);
        for (size_t f = 0; f < COUNT(flags); f++)
            opened += open_both(in_folder(state, "i.json"), flags[f]);
    }
    print_message("           %zu of %zu opened\n", opened, MODELS * COUNT(flags));
    assert_true(opened > MODELS && opened < MODELS * COUNT(flags));
}

/*
 * An error of the index is reported before those of shards, even if it shows only when all are
 * known.
 */
static void a_name_that_is_listed_twice_is_told_first(void **state) {
    write_text(in_folder(state, "i.json"),
               "{\"weight_map\":{\"t.1\":\"not-there\",\"t.2\":\"m-0\",\"t.2\":\"m-0\"}}");
    must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_FORMAT,
              "tensor \"t.2\" appears twice in weight_map; the other is at byte");
}

/* Each shard is judged by itself: the error names the first broken one. */
static void a_name_that_is_twice_in_a_shard_is_found_in_its_turn(void **state) {
    static const char twice[] = "{\"t.1\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                "\"t.1\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    write_text(in_folder(state, "i.json"),
               "{\"weight_map\":{\"t.1\":\"m-0\",\"t.2\":\"m-0\",\"t.3\":\"m-1\"}}");
    write_model(in_folder(state, "m-0"), twice, 2);
    write_text(in_folder(state, "m-1"), "not a model at all");
    must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_FORMAT, "the name appears twice");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_indexes_are_taken_quickly),
        cmocka_unit_test(quick_and_full_agree_about_damaged_indexes),
        cmocka_unit_test(models_are_the_same_by_either_way),
        cmocka_unit_test(a_name_that_is_listed_twice_is_told_first),
        cmocka_unit_test(a_name_that_is_twice_in_a_shard_is_found_in_its_turn),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
