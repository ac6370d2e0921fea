/*
 * PyTorch checkpoints for the tests of the tool, in the folder that is given:
 *
 *     tied.bin       a model whose head is its embedding; other tensors that see the same storage;
 *                    a string that names a tensor
 *     training.ckpt  a model under "state_dict", and beside it an optimizer, an average, numbers
 *     clash.pt       names of a tensor; one is a number beside the model too, one is "format"
 *     tensor.pt      one tensor
 *     evil.pt        tensors, and calls of functions that are no data
 *     made.pt        a tensor that only code could make
 *     class.pt       a class that is imported and not called
 *     script.pt, archive.pt    zip archives of other programs
 *     cut.pt         the first half of tied.bin
 *     noise.bin      no archive at all
 *     sharded/       two shards and pytorch_model.bin.index.json
 *     trainer/       a model beside the other files that a trainer writes
 */
#include "torch_files.h"

#include <sys/stat.h>
#include <unistd.h>

#define NEW_PICKLE                                                                                 \
    { {NULL, 0}, 0 }

/* Appends F32 values: small whole numbers times a power of two. */
static void put_floats(torch_bytes *b, size_t count, float scale) {
    for (size_t i = 0; i < count; i++) {
        float value = scale * (float)((int)(i * 7 % 23) - 11);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        torch_number(b, bits, 4);
    }
}

enum { STORAGES = 3, FLOATS = 24, ALIGNMENT = 64, LOCAL_HEADER = 30, LEAST_PADDING = 4 };

/* Pads the local header of an entry at `at`, as torch.save does; returns where the entry ends. */
static size_t align_entry(zip_file *f, size_t at) {
    size_t data = at + LOCAL_HEADER + strlen(f->name) + LEAST_PADDING;
    f->padding = LEAST_PADDING + (ALIGNMENT - data % ALIGNMENT) % ALIGNMENT;
    return data + f->padding - LEAST_PADDING + f->size;
}

/* Ends the pickle and saves it with storages "0" to "2" of 24 floats each. */
static void save(const char *path, torch_bytes *pickle) {
    static const char *const names[STORAGES] = {"archive/data/0", "archive/data/1",
                                                "archive/data/2"};
    static const float scales[STORAGES] = {0.5f, 0.25f, 2};
    torch_bytes data[STORAGES] = {NEW_PICKLE, NEW_PICKLE, NEW_PICKLE};
    size_t end = 0;
    TORCH_LITERAL(pickle, ".");
    zip_file files[STORAGES + 2] = {
        {.name = "archive/data.pkl", .data = pickle->out.at, .size = pickle->out.size},
        {.name = "archive/byteorder", .data = "little", .size = 6}};
    for (size_t i = 0; i < STORAGES; i++) {
        put_floats(&data[i], FLOATS, scales[i]);
        files[2 + i] =
            (zip_file){.name = names[i], .data = data[i].out.at, .size = data[i].out.size};
    }
    for (size_t i = 0; i < COUNT(files); i++)
        end = align_entry(&files[i], end);
    bytes file = make_zip(files, COUNT(files), NULL);
    write_file(path, file.at, file.size);
    for (size_t i = 0; i < STORAGES; i++)
        free(data[i].out.at);
    free(file.at);
    free(pickle->out.at);
}

/* KEY and a tensor of the dict that is being filled. */
static void put(torch_bytes *p, const char *name, pickle_tensor t) {
    pickle_text(p, name);
    t.elements = FLOATS;
    pickle_put_tensor(p, &t);
}

/* A contiguous matrix at the begin of a storage. */
static pickle_tensor matrix(const char *key, int64_t rows, int64_t columns) {
    return (pickle_tensor){
        .key = key, .shape = {rows, columns}, .strides = {columns, 1}, .rank = 2};
}

static void put_layers(torch_bytes *p) {
    put(p, "model.embed.weight", matrix("0", 6, 4));
    put(p, "model.layers.0.weight", matrix("1", 4, 6));
    put(p, "model.norm.weight",
        (pickle_tensor){.key = "2", .shape = {4}, .strides = {1}, .rank = 1});
}

static void put_text(torch_bytes *p, const char *key, const char *value) {
    pickle_text(p, key);
    pickle_text(p, value);
}

static void put_whole(torch_bytes *p, const char *key, int64_t value) {
    pickle_text(p, key);
    pickle_int(p, value);
}

static void begin_dict(torch_bytes *p) {
    TORCH_LITERAL(p, "}(");
}

static void end_dict(torch_bytes *p) {
    TORCH_LITERAL(p, "u");
}

static void write_tied(const char *path) {
    torch_bytes p = NEW_PICKLE;
    pickle_tensor transposed = {.key = "1", .shape = {6, 4}, .strides = {1, 6}, .rank = 2};
    pickle_tensor row = {.key = "0", .offset = 4, .shape = {4}, .strides = {1}, .rank = 1};
    TORCH_LITERAL(&p, "\x80\2");
    begin_dict(&p);
    put(&p, "lm_head.weight", matrix("0", 6, 4));
    put_layers(&p);
    put(&p, "flat", (pickle_tensor){.key = "0", .shape = {24}, .strides = {1}, .rank = 1});
    put(&p, "row", row);
    put(&p, "turned.b", transposed);
    put(&p, "turned.a", transposed);
    put_text(&p, "head", "lm_head.weight");
    put_text(&p, "norm", "model.norm.weight");
    put_whole(&p, "step", 7);
    end_dict(&p);
    save(path, &p);
}

static void write_training(const char *path) {
    torch_bytes p = NEW_PICKLE;
    TORCH_LITERAL(&p, "\x80\2");
    begin_dict(&p);
    put_whole(&p, "epoch", 3);
    pickle_text(&p, "hyper_parameters");
    begin_dict(&p);
    put_text(&p, "name", "tiny");
    end_dict(&p);
    pickle_text(&p, "optimizer_states");
    TORCH_LITERAL(&p, "](");
    begin_dict(&p);
    put(&p, "exp_avg", matrix("1", 6, 4));
    put(&p, "exp_avg_sq", matrix("2", 6, 4));
    end_dict(&p);
    TORCH_LITERAL(&p, "e");
    pickle_text(&p, "state_dict");
    begin_dict(&p);
    put_layers(&p);
    end_dict(&p);
    pickle_text(&p, "ema");
    begin_dict(&p);
    put(&p, "model.embed.weight", matrix("0", 6, 4));
    end_dict(&p);
    end_dict(&p);
    save(path, &p);
}

static void write_clash(const char *path) {
    torch_bytes p = NEW_PICKLE;
    TORCH_LITERAL(&p, "\x80\2");
    begin_dict(&p);
    put_whole(&p, "scale", 2);
    pickle_text(&p, "model");
    begin_dict(&p);
    put(&p, "scale", matrix("0", 6, 4));
    put(&p, "a", matrix("0", 6, 4));
    put(&p, "b", matrix("0", 6, 4));
    put(&p, "format", matrix("0", 6, 4));
    end_dict(&p);
    end_dict(&p);
    save(path, &p);
}

/* Calls a function with a string. */
static void put_call(torch_bytes *p, const char *key, const char *module, const char *name) {
    pickle_text(p, key);
    pickle_global(p, module, name);
    TORCH_LITERAL(p, "(");
    pickle_text(p, "touch called");
    TORCH_LITERAL(p, "tR");
}

static void write_code(void) {
    torch_bytes evil = NEW_PICKLE, made = NEW_PICKLE, class = NEW_PICKLE;
    TORCH_LITERAL(&evil, "\x80\2");
    begin_dict(&evil);
    put_layers(&evil);
    put_call(&evil, "a", "posix", "system");
    put_call(&evil, "b", "builtins", "eval");
    pickle_text(&evil, "c");
    pickle_global(&evil, "my.code", "Config");
    end_dict(&evil);
    save("evil.pt", &evil);
    TORCH_LITERAL(&made, "\x80\2");
    begin_dict(&made);
    pickle_text(&made, "w");
    pickle_global(&made, "my.code", "rebuild");
    TORCH_LITERAL(&made, "(");
    pickle_tensor inner = matrix("0", 6, 4);
    inner.elements = FLOATS;
    pickle_put_tensor(&made, &inner);
    TORCH_LITERAL(&made, "tR");
    end_dict(&made);
    save("made.pt", &made);
    TORCH_LITERAL(&class, "\x80\2");
    begin_dict(&class);
    put_layers(&class);
    pickle_text(&class, "config");
    pickle_global(&class, "my.code", "Config");
    end_dict(&class);
    save("class.pt", &class);
}

static void write_others(void) {
    static const zip_file script[] = {{.name = "net/data.pkl", .data = "}.", .size = 2},
                                      {.name = "net/constants.pkl", .data = ").", .size = 2}};
    static const zip_file archive[] = {{.name = "README", .data = "text", .size = 4}};
    bytes file = make_zip(script, COUNT(script), NULL);
    write_file("script.pt", file.at, file.size);
    free(file.at);
    file = make_zip(archive, COUNT(archive), NULL);
    write_file("archive.pt", file.at, file.size);
    free(file.at);
    write_file("noise.bin", "\1\2\3 noise, as other programs write it", 37);
    write_tied("cut.pt");
    assert_int_equal(truncate("cut.pt", 1000), 0);
    torch_bytes p = NEW_PICKLE;
    pickle_tensor alone = matrix("0", 6, 4);
    alone.elements = FLOATS;
    TORCH_LITERAL(&p, "\x80\2");
    pickle_put_tensor(&p, &alone);
    save("tensor.pt", &p);
}

static void write_shards(void) {
    torch_bytes first = NEW_PICKLE, second = NEW_PICKLE;
    assert_int_equal(mkdir("sharded", 0777), 0);
    TORCH_LITERAL(&first, "\x80\2");
    begin_dict(&first);
    put(&first, "model.embed.weight", matrix("0", 6, 4));
    end_dict(&first);
    save("sharded/pytorch_model-00001-of-00002.bin", &first);
    TORCH_LITERAL(&second, "\x80\2");
    begin_dict(&second);
    put(&second, "model.layers.0.weight", matrix("1", 4, 6));
    put(&second, "lm_head.weight", matrix("2", 6, 4));
    put(&second, "tied.weight", matrix("2", 6, 4));
    end_dict(&second);
    save("sharded/pytorch_model-00002-of-00002.bin", &second);
    write_text("sharded/pytorch_model.bin.index.json",
               "{\"metadata\": {\"total_size\": 288}, \"weight_map\": {"
               "\"model.embed.weight\": \"pytorch_model-00001-of-00002.bin\","
               "\"model.layers.0.weight\": \"pytorch_model-00002-of-00002.bin\","
               "\"lm_head.weight\": \"pytorch_model-00002-of-00002.bin\","
               "\"tied.weight\": \"pytorch_model-00002-of-00002.bin\"}}\n");
}

static void write_trainer(void) {
    torch_bytes model = NEW_PICKLE, arguments = NEW_PICKLE;
    assert_int_equal(mkdir("trainer", 0777), 0);
    TORCH_LITERAL(&model, "\x80\2");
    begin_dict(&model);
    put_layers(&model);
    end_dict(&model);
    save("trainer/pytorch_model.bin", &model);
    TORCH_LITERAL(&arguments, "\x80\2");
    pickle_global(&arguments, "transformers.training_args", "TrainingArguments");
    TORCH_LITERAL(&arguments, ")\x81");
    save("trainer/training_args.bin", &arguments);
    write_training("trainer/optimizer.pt");
}

int main(int argc, char **argv) {
    if (argc != 2 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: cli_checkpoints FOLDER\n");
        return 1;
    }
    write_tied("tied.bin");
    write_training("training.ckpt");
    write_clash("clash.pt");
    write_code();
    write_others();
    write_shards();
    write_trainer();
    return 0;
}
