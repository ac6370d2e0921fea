/* Shows what is in a model: its files, its metadata and its tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <tenmap.h>

/* Names come from the file, so control characters are shown as '?'. */
static void print_safely(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        putchar(c < 0x20 || c == 0x7f ? '?' : c);
    }
}

/* In a column of fifteen characters, or more if necessary. */
static void print_shape(const tenmap_tensor *t) {
    int used = printf("[");
    for (uint32_t d = 0; d < t->rank; d++)
        used += printf("%s%" PRIu64, d ? ", " : "", t->shape[d]);
    used += printf("]");
    printf("%*s", used < 15 ? 15 - used : 1, "");
}

static void print_tensor(const tenmap_tensor *t) {
    float first;
    printf("  %-5s ", tenmap_dtype_text(t));
    print_shape(t);
    print_safely(t->name, t->name_len);
    if (t->nelems && tenmap_read(t, 0, 1, TENMAP_F32, &first, sizeof first, 0, NULL) == TENMAP_OK)
        printf(" = %.4g%s", (double)first, t->nelems > 1 ? ", ..." : "");
    putchar('\n');
}

int main(int argc, char **argv) {
    tenmap_model *model;
    tenmap_error error;
    if (argc != 2) {
        fprintf(stderr, "usage: show MODEL   (a file, an index or a folder)\n");
        return 2;
    }
    if (tenmap_open(argv[1], NULL, &model, &error) != TENMAP_OK) {
        fprintf(stderr, "show: %s\n", error.message);
        return 1;
    }
    printf("%s: %zu tensors in %zu file%s, %" PRIu64 " bytes\n", argv[1], tenmap_count(model),
           tenmap_shard_count(model), tenmap_shard_count(model) == 1 ? "" : "s",
           tenmap_file_size(model));
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *m = tenmap_metadata_at(model, i);
        printf("  metadata: ");
        print_safely(m->key, m->key_len);
        printf(" = ");
        print_safely(m->value, m->value_len);
        putchar('\n');
    }
    for (size_t i = 0; i < tenmap_count(model); i++)
        print_tensor(tenmap_at(model, i));
    tenmap_close(model);
    return 0;
}
