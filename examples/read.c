/* Opens the model at argv[1] and prints the first values of its first tensor. */
#include <stdio.h>
#include <tenmap.h>

int main(int argc, char **argv) {
    tenmap_model *model;
    tenmap_error error;
    if (argc < 2 || tenmap_open(argv[1], NULL, &model, &error) != TENMAP_OK)
        return fprintf(stderr, "%s\n", argc < 2 ? "usage: read MODEL" : error.message), 1;
    const tenmap_tensor *t = tenmap_at(model, 0); /* or tenmap_find(model, "lm_head.weight") */
    float first[4] = {0};
    uint64_t n = !t ? 0 : t->nelems < 4 ? t->nelems : 4;
    if (t && tenmap_read(t, 0, n, TENMAP_F32, first, sizeof first, 0, &error) == TENMAP_OK)
        printf("%s: %g %g %g %g\n", t->name, first[0], first[1], first[2], first[3]);
    tenmap_close(model);
}
