/* Opens the model at argv[1] (hf://ORG/MODEL, https://, s3://) and loads its weight argv[2]. */
#include <stdio.h>
#include <stdlib.h>
#include <tenmap_http.h>

int main(int argc, char **argv) {
    tenmap_error error;
    tenmap_io io = TENMAP_IO_INIT;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model = NULL;
    if (argc != 3)
        return fprintf(stderr, "usage: remote ADDRESS NAME\n"), 1;
    options.io = &io; /* the only difference from a local model */
    tenmap_status status = tenmap_http_create(NULL, &io, &error);
    if (status == TENMAP_OK)
        status = tenmap_open(argv[1], &options, &model, &error);
    const tenmap_tensor *t = status == TENMAP_OK ? tenmap_find(model, argv[2]) : NULL;
    float *values = t ? malloc((size_t)t->nelems * sizeof *values) : NULL;
    if (values)
        status = tenmap_read(t, 0, t->nelems, TENMAP_F32, values,
                             (size_t)t->nelems * sizeof *values, 0, &error);
    if (status != TENMAP_OK || !values)
        fprintf(stderr, "%s\n", status != TENMAP_OK ? error.message : "there is no such weight");
    else
        printf("%llu values, the first %g\n", (unsigned long long)t->nelems,
               t->nelems ? (double)values[0] : 0.0);
    tenmap_http_traffic moved = tenmap_http_moved(&io);
    fprintf(stderr, "%llu bytes in %llu requests\n", (unsigned long long)moved.bytes,
            (unsigned long long)moved.requests);
    free(values);
    tenmap_close(model);
    tenmap_http_destroy(&io);
    return status == TENMAP_OK && t ? 0 : 1;
}
