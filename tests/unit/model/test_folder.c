/* Which model of a folder is opened, and how errors describe files that are not models. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "torch_files.h"

#include <sys/stat.h>

static bool ends_in(const char *name, const char *ending) {
    size_t len = strlen(name), size = strlen(ending);
    return len >= size && strcmp(name + len - size, ending) == 0;
}

/* A checkpoint of one tensor with this name. */
static void write_checkpoint(void **state, const char *name) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "\x80\2}");
    pickle_text(&p, name);
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "s.");
    bytes file = make_checkpoint(&p, 1, 24 * sizeof(float));
    write_file(in_folder(state, name), file.at, file.size);
    free(file.at);
}

/* Each file of a row holds one tensor with the file's name, which shows what was chosen. */
static void write_named(void **state, const char *name) {
    static const char *const torch[] = {".bin", ".pt", ".pth", ".ckpt"};
    char json[512];
    for (size_t i = 0; i < COUNT(torch); i++)
        if (ends_in(name, torch[i])) {
            write_checkpoint(state, name);
            return;
        }
    snprintf(json, sizeof json, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
             name);
    write_model(in_folder(state, name), json, 1);
}

static void write_index(void **state, const char *name, const char *shard) {
    char json[512];
    snprintf(json, sizeof json, "{\"weight_map\":{\"%s\":\"%s\"}}", shard, shard);
    write_text(in_folder(state, name), json);
}

typedef struct choice_row {
    const char *rule;
    const char *files[8];
    const char *chosen[6]; /* the tensors of the model, in order; none: an error with these words */
    const char *error;
} choice_row;

static const choice_row choices[] = {
    {"model.safetensors comes first",
     {"model.safetensors", "other.safetensors", "diffusion_pytorch_model.safetensors",
      "x.index.json>other.safetensors"},
     {"model.safetensors"},
     NULL},
    {"then its index",
     {"model.safetensors.index.json>b.safetensors", "b.safetensors",
      "diffusion_pytorch_model.safetensors"},
     {"b.safetensors"},
     NULL},
    {"then the diffusion model",
     {"diffusion_pytorch_model.safetensors", "z.safetensors"},
     {"diffusion_pytorch_model.safetensors"},
     NULL},
    {"then its index",
     {"diffusion_pytorch_model.safetensors.index.json>z.safetensors", "z.safetensors",
      "y.safetensors"},
     {"z.safetensors"},
     NULL},
    {"the only index",
     {"foo.safetensors.index.json>z.safetensors", "z.safetensors", "y.safetensors"},
     {"z.safetensors"},
     NULL},
    {"the only index, by its short name",
     {"foo.index.json>z.safetensors", "z.safetensors", "y.safetensors"},
     {"z.safetensors"},
     NULL},
    {"two indexes",
     {"foo.index.json>z.safetensors", "bar.index.json>z.safetensors", "z.safetensors"},
     {NULL},
     "more than one model"},
    {"an index of another format does not count",
     {"tf_model.h5.index.json>z.h5", "z.safetensors"},
     {"z.safetensors"},
     NULL},
    {"PyTorch files come after SafeTensors files",
     {"pytorch_model.bin.index.json>z.bin", "z.bin", "pytorch_model.bin", "z.safetensors"},
     {"z.safetensors"},
     NULL},
    {"and after GGUF files, of which a projector is no model",
     {"mmproj.gguf", "pytorch_model.bin"},
     {"pytorch_model.bin"},
     NULL},
    {"pytorch_model.bin comes before its index",
     {"pytorch_model.bin", "pytorch_model.bin.index.json>z.bin", "z.bin",
      "diffusion_pytorch_model.bin"},
     {"pytorch_model.bin"},
     NULL},
    {"then the index",
     {"pytorch_model.bin.index.json>z.bin", "z.bin", "diffusion_pytorch_model.bin"},
     {"z.bin"},
     NULL},
    {"then the diffusion model of PyTorch",
     {"diffusion_pytorch_model.bin", "open_clip_pytorch_model.bin", "training_args.bin"},
     {"diffusion_pytorch_model.bin"},
     NULL},
    {"what a trainer writes beside the model does not count",
     {"pytorch_model.bin", "training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth"},
     {"pytorch_model.bin"},
     NULL},
    {"a numbered set of PyTorch files",
     {"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin", "optimizer.bin"},
     {"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"},
     NULL},
    {"an incomplete set of PyTorch files",
     {"pytorch_model-00001-of-00002.bin"},
     {NULL},
     "1 of 2 shards are missing: \"pytorch_model-00002-of-00002.bin\""},
    {"a variant of a PyTorch file", {"pytorch_model.fp16.bin"}, {"pytorch_model.fp16.bin"}, NULL},
    {"a variant comes after the model in another format",
     {"model.fp16.safetensors", "pytorch_model.bin"},
     {"pytorch_model.bin"},
     NULL},
    {"an adapter of PyTorch", {"adapter_model.bin", "optimizer.pt"}, {"adapter_model.bin"}, NULL},
    {"an adapter in two formats",
     {"adapter_model.bin", "adapter_model.safetensors"},
     {"adapter_model.safetensors"},
     NULL},
    {"a consolidated file alone", {"consolidated.00.pth"}, {"consolidated.00.pth"}, NULL},
    {"consolidated files, which hold pieces of the same tensors",
     {"consolidated.00.pth", "consolidated.01.pth"},
     {NULL},
     "holds more than one model; open one of its files: \"consolidated.00.pth\""},
    {"only PyTorch files with other names",
     {"z.ckpt", "optimizer.pt", "pytorch_models.bin"},
     {NULL},
     "no .safetensors, .gguf or pytorch_model.bin file and no index; \"optimizer.pt\" opens by its "
     "own path"},
    {"a complete set",
     {"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"},
     {"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"},
     NULL},
    {"a complete set from 0, any digit widths",
     {"m-0-of-3.safetensors", "m-01-of-3.safetensors", "m-002-of-3.safetensors"},
     {"m-0-of-3.safetensors", "m-002-of-3.safetensors", "m-01-of-3.safetensors"},
     NULL},
    {"any digit widths of N too",
     {"m-01-of-2.safetensors", "m-2-of-02.safetensors"},
     {"m-01-of-2.safetensors", "m-2-of-02.safetensors"},
     NULL},
    {"a complete set beside a single file",
     {"m-1-of-1.safetensors", "x.safetensors"},
     {"m-1-of-1.safetensors"},
     NULL},
    {"a complete set beside a broken one",
     {"m-1-of-1.safetensors", "n-1-of-2.safetensors"},
     {"m-1-of-1.safetensors"},
     NULL},
    {"two complete sets",
     {"m-1-of-1.safetensors", "n-1-of-1.safetensors"},
     {NULL},
     "more than one model"},
    {"an incomplete set",
     {"m-00001-of-00003.safetensors", "m-00003-of-00003.safetensors"},
     {NULL},
     "1 of 3 shards are missing: \"m-00002-of-00003.safetensors\""},
    {"the only file",
     {"anything.safetensors", "config.json", "tokenizer.model"},
     {"anything.safetensors"},
     NULL},
    {"two files",
     {"a.safetensors", "b.safetensors"},
     {NULL},
     "holds more than one model; open one of its files: \"a.safetensors\", \"b.safetensors\""},
    {"hidden files are ignored",
     {"._model.safetensors", ".hidden.safetensors", "b.safetensors"},
     {"b.safetensors"},
     NULL},
    {"consolidated files come second",
     {"consolidated.safetensors", "b.safetensors"},
     {"b.safetensors"},
     NULL},
    {"consolidated files alone", {"consolidated.safetensors"}, {"consolidated.safetensors"}, NULL},
    {"adapters come second",
     {"adapter_model.safetensors", "b.safetensors"},
     {"b.safetensors"},
     NULL},
    {"adapters alone",
     {"adapter_model.safetensors", "adapter_config.json"},
     {"adapter_model.safetensors"},
     NULL},
    {"variants come second",
     {"thing.fp16.safetensors", "thing.safetensors"},
     {"thing.safetensors"},
     NULL},
    {"a variant alone", {"model.fp16.safetensors"}, {"model.fp16.safetensors"}, NULL},
    {"a dot in a name is no variant",
     {"llama-3.1-8b.safetensors", "model.fp16.safetensors"},
     {"llama-3.1-8b.safetensors"},
     NULL},
    {"nothing",
     {"config.json", "README.md"},
     {NULL},
     "no .safetensors, .gguf or pytorch_model.bin file and no index"},
    {"nothing but another format",
     {"flax_model.msgpack.index.json>x.msgpack"},
     {NULL},
     "fetch the SafeTensors release"},
};

static void the_order_of_preference(void **state) {
    for (size_t i = 0; i < COUNT(choices); i++) {
        const choice_row *row = &choices[i];
        print_message("           %s\n", row->rule);
        empty_folder(state);
        for (size_t f = 0; f < COUNT(row->files) && row->files[f]; f++) {
            char name[256];
            const char *arrow = strchr(row->files[f], '>');
            snprintf(name, sizeof name, "%s", row->files[f]);
            if (arrow) {
                name[arrow - row->files[f]] = '\0';
                write_index(state, name, arrow + 1);
            } else {
                write_named(state, name);
            }
        }
        if (row->error) {
            must_fail(*state, NULL, TENMAP_ERR_NOT_FOUND, row->error);
            continue;
        }
        tenmap_model *m = must_open(*state, NULL);
        size_t count = 0;
        for (; count < COUNT(row->chosen) && row->chosen[count]; count++) {
            assert_non_null(tenmap_at(m, count));
            assert_string_equal(tenmap_at(m, count)->name, row->chosen[count]);
        }
        assert_int_equal(tenmap_count(m), count);
        assert_string_equal(tenmap_path(m), (const char *)*state);
        tenmap_close(m);
    }
}

static void partial_opens_an_incomplete_set(void **state) {
    write_named(state, "m-00001-of-00003.safetensors");
    write_named(state, "m-00003-of-00003.safetensors");
    tenmap_options partial = TENMAP_OPTIONS_INIT;
    partial.flags = TENMAP_OPEN_PARTIAL;
    tenmap_model *m = must_open(*state, &partial);
    assert_int_equal(tenmap_count(m), 2);
    assert_string_equal(tenmap_missing_at(m, 0), "m-00002-of-00003.safetensors");
    assert_string_equal(tenmap_at(m, 1)->name, "m-00003-of-00003.safetensors");
    assert_int_equal(tenmap_at(m, 1)->shard, 1);
    tenmap_close(m);
}

static void a_set_without_an_index_must_not_name_a_tensor_twice(void **state) {
    static const char json[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    write_model(in_folder(state, "m-1-of-2.safetensors"), json, 1);
    write_model(in_folder(state, "m-2-of-2.safetensors"), json, 1);
    must_fail(*state, NULL, TENMAP_ERR_FORMAT,
              "tensor \"t\" is in \"m-1-of-2.safetensors\" and in \"m-2-of-2.safetensors\"");
}

static void a_folder_of_model_folders_names_them(void **state) {
    static const char *const parts[] = {"unet", "vae", "docs", ".git"};
    for (size_t i = 0; i < COUNT(parts); i++) {
        assert_int_equal(mkdir(in_folder(state, parts[i]), 0700), 0);
        char name[256];
        snprintf(name, sizeof name, "%s/%s", parts[i], i == 2 ? "README" : "model.safetensors");
        write_text(in_folder(state, name), "x");
    }
    tenmap_error error;
    tenmap_model *m;
    must_fail(*state, NULL, TENMAP_ERR_NOT_FOUND, "each of these folders inside it does");
    assert_int_equal(tenmap_open(*state, NULL, &m, &error), TENMAP_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "\"unet\""));
    assert_non_null(strstr(error.message, "\"vae\""));
    assert_null(strstr(error.message, "docs"));
    assert_null(strstr(error.message, ".git"));
}

/* The error names the format of other files. */
static void foreign_files_are_named(void **state) {
    static const struct {
        const char *start;
        size_t len;
        const char *error;
    } rows[] = {
#define START(text) text, sizeof(text) - 1
        {START("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
         "Git LFS pointer, not the model: run `git lfs pull`"},
        {START("<!DOCTYPE html><html><body>404"), "HTML page"},
        {START("\n <HTML lang=en>"), "HTML page"},
        {START("<?xml version=\"1.0\"?><Error>AccessDenied</Error>"), "XML document"},
        {START("PK\3\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0archive/data.pkl"),
         "PyTorch checkpoint (a zip"},
        {START("PK\3\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0arr_0.npy"),
         "NumPy archive"},
        {START("PK\3\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0readme.txt"),
         "zip archive"},
        {START("\x80\2\x8a\n\x6c\xfc\x9c\x46\xf9 j\xa8P\x19."), "protocol's version"},
        {START("\x80\4\x95\x1a\0\0\0\0\0\0\0}\x94"), "Python pickle"},
        {START("\x1f\x8b\x08\x08\1\2\3\4\5\6"), "gzip archive"},
        {START("\x28\xb5\x2f\xfd\1\2\3\4\5\6"), "Zstandard archive"},
        {START("\xfd"
               "7zXZ\0\0\4\xe6\xd6"),
         "xz archive"},
        {START("\x89HDF\r\n\x1a\n\0\0\0\0"), "HDF5 file"},
        {START("\x93NUMPY\1\0v\0{'descr'"), "truncated, or damaged"},
        {START("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
         "a zip archive without entries, as numpy.savez writes it without arrays"},
        {START("\x80\4\x95\x10\0\0\0\0\0\0\0\x8c\x07sklearn"), "that PyTorch did not write"},
        {START("\x08\1\x12\x93\x0c\x0a\4abcd\x12\4efgh"), "this is a TensorFlow SavedModel"},
        {START("\x0a\x2a\x0a\5input\x12\x0bPlaceholder*\1"), "this is a TensorFlow graph"},
        {START("\0\0\6\x08\1\x1a\2\x08\1\0\6w"), "this is the index of a TensorFlow checkpoint"},
        {START("\x08\x08\x12\7pytorch\x1a\0052.1.0:\x80\1"), "this is an ONNX model"},
        {START("\x08\x0a:\x80\x80\1\x0a\1"), "this is an ONNX model"},
        {START("\x08\x07\x42\4\x0a\0\x10\x0d"), "this is an ONNX model"},
        {START("\x82\xa6params\x81\xa5layer\x80"), "this is a MessagePack file (.msgpack, flax)"},
        {START("\xde\0\x10\xd9\x28transformer/encoder/layers/0/kernel/name"),
         "this is a MessagePack file"},
        {START("\xdf\0\0\0\x10\xa3"
               "abc\x80\x80\x80"),
         "this is a MessagePack file"},
        {START("\x1c\0\0\0TFL3\x14\0\x20\0"), "this is a TensorFlow Lite model"},
        {START("\x44\0\0\0ET12eh00"), "this is an ExecuTorch program"},
        {START("\x44\0\0\0FT01\0\0\0\0"), "this is an ExecuTorch data file"},
        {START("\x10\0\0\0PTMF\0\0\0\0"), "TorchScript model for mobile devices"},
        {START("placeholder"), "text file, not a SafeTensors file; it begins with \"placeholder\""},
        {START("x"), "text file"},
        {START("[1,2,3,4,5,6]"), "JSON text"},
        {START("{\"model_type\": \"llama\"}"), "without a weight_map"},
        {START(""), "the file is empty"},
        {START("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), "begins with only zeros"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *path = in_folder(state, "model.safetensors");
        write_file(path, rows[i].start, rows[i].len);
        must_fail(path, NULL, TENMAP_ERR_FORMAT, rows[i].error);
    }
}

/* Before 0.1.10, torch wrote tar archives of four entries; any other tar archive is only that. */
static void tar_archives_are_named(void **state) {
    static const char *const entries[] = {"sys_info", "pickle",    "tensors",
                                          "storages", "sys_info2", "./model.safetensors"};
    enum { OF_TORCH = 4, BLOCK = 512, MAGIC_AT = 257 };
    for (size_t i = 0; i < COUNT(entries); i++) {
        const char *path = in_folder(state, "model.tar");
        char block[2 * BLOCK] = "";
        snprintf(block, 100, "%s", entries[i]);
        memcpy(block + MAGIC_AT, "ustar", 5);
        write_file(path, block, sizeof block);
        must_fail(path, NULL, TENMAP_ERR_FORMAT,
                  i < OF_TORCH ? "load it with a recent torch and save it again"
                               : "this is a tar archive: unpack it first");
    }
}

/* Bytes that only resemble the start of another format get no name. */
static void unknown_bytes_get_no_name(void **state) {
    static const struct {
        const char *start;
        size_t len;
    } rows[] = {
        {START("\x08\1\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")},
        {START("\x08\x09\x12\3\1\2\3\xff\xff")},
        {START("\x08\x28\x12\3abc\xff\xff")},
        {START("\x08\x07\x12\x7f"
               "abcdefgh")},
        {START("\x08\x07\x22\7pytorch\xff")},
        {START("\x0a\x2a\x0a\5input\x15\0\0\0\xff\xff")},
        {START("\x0a\x2a\x0a\5input\x12\4none\xff")},
        {START("\x0a\x2a\x0a\x05in\1ut\x12\4None\xff")},
        {START("\0\0\6\x08\1\x1b\2\x08\xff\xff\xff\xff")},
        {START("\x81\x91\x01\x02\x03\x04\x05\xff\xff")},
        {START("\x81\xa4"
               "a\1cd\x05\xff\xff")},
        {START("\x81\xbf"
               "abcdefgh\xff")},
        {START("\xde\0\x10\xd9\0\xff\xff\xff\xff")},
        {START("\x10\0\0\0XXXX\xff\xff\xff\xff")},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        tenmap_error error;
        tenmap_model *m;
        const char *path = in_folder(state, "model.safetensors");
        write_file(path, rows[i].start, rows[i].len);
        assert_int_not_equal(tenmap_open(path, NULL, &m, &error), TENMAP_OK);
        assert_null(strstr(error.message, "this is a TensorFlow"));
        assert_null(strstr(error.message, "ONNX"));
        assert_null(strstr(error.message, "MessagePack"));
    }
}

/* The data of a TensorFlow checkpoint has no magic: its name says what it is. */
static void data_of_checkpoints_is_named(void **state) {
    static const char *const names[] = {"variables.data-00000-of-00001", "variables.data-0-of-1",
                                        "variables.index-00000-of-00001", "data"};
    for (size_t i = 0; i < COUNT(names); i++) {
        tenmap_error error;
        tenmap_model *m;
        const char *path = in_folder(state, names[i]);
        write_file(path, "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7", 9);
        assert_int_not_equal(tenmap_open(path, NULL, &m, &error), TENMAP_OK);
        assert_int_equal(i == 0, strstr(error.message, "data of a TensorFlow checkpoint") != NULL);
    }
}

/* A header whose length field starts like a pickle is still a model. */
static void a_model_is_never_taken_for_something_else(void **state) {
    (void)state;
    static const size_t lengths[] = {0x280, 0x480, 0x8b1f, 0x4b50, 0x5a42};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        char *json = malloc(lengths[i]);
        memset(json, ' ', lengths[i]);
        json[0] = '{';
        json[lengths[i] - 1] = '}';
        bytes file = make_model_n(json, lengths[i], 0);
        tenmap_close(must_open_memory(file, NULL));
        free(file.at);
        free(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_order_of_preference, empty_folder),
        cmocka_unit_test_setup(partial_opens_an_incomplete_set, empty_folder),
        cmocka_unit_test_setup(a_set_without_an_index_must_not_name_a_tensor_twice, empty_folder),
        cmocka_unit_test_setup(a_folder_of_model_folders_names_them, empty_folder),
        cmocka_unit_test_setup(foreign_files_are_named, empty_folder),
        cmocka_unit_test_setup(tar_archives_are_named, empty_folder),
        cmocka_unit_test_setup(unknown_bytes_get_no_name, empty_folder),
        cmocka_unit_test_setup(data_of_checkpoints_is_named, empty_folder),
        cmocka_unit_test(a_model_is_never_taken_for_something_else),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
