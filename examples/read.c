/* Opens the model at argv[1] and prints the first values of its first tensor. */
#include <stdio.h>
#include <tenmap.h>

int main(int argc, char **argv) {
    tenmap_model *model;
    tenmap_error error;
    if (argc != 2 || tenmap_open(argv[1], NULL, &model, &error) != TENMAP_OK)
        return fprintf(stderr, "%s\n", argc != 2 ? "usage: read MODEL" : error.message), 1;
    const tenmap_tensor *t = tenmap_at(model, 0); /* or tenmap_find(model, "lm_head.weight") */
    float v[4];
    uint64_t n = t && t->nelems < 4 ? t->nelems : 4;
    tenmap_status status = tenmap_read(t, 0, n, TENMAP_F32, v, sizeof v, 0, &error);
    for (uint64_t i = 0; i < n && status == TENMAP_OK; i++)
        printf("%g\n", v[i]);
    tenmap_close(model);
    return status == TENMAP_OK ? 0 : (fprintf(stderr, "%s\n", error.message), 1);
}
