/*
 * Keeps a cache of weights in another layout, as engines do whose kernels want panels instead of
 * rows: the first run repacks the model and writes the result; later runs map it. The cache is
 * named by the model's fingerprint, so that a model that was written again is repacked again, and
 * it appears complete or not at all, however many processes start at once.
 *
 *     repack MODEL CACHE-FOLDER
 *
 * Each matrix [rows, columns] becomes F32 panels of 8 rows: [panels, columns, 8], the last one
 * padded with zeros. Other tensors are left out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenmap.h>

enum { PANEL = 8 };

/* "FOLDER/panels8-0123....safetensors" for this fingerprint; 0 if that is too long. */
static int cache_path(const char *folder, const uint8_t fingerprint[32], char *out, size_t room) {
    char digits[2 * TENMAP_FINGERPRINT_BYTES + 1];
    for (size_t i = 0; i < TENMAP_FINGERPRINT_BYTES; i++)
        snprintf(digits + 2 * i, 3, "%02x", fingerprint[i]);
    int used = snprintf(out, room, "%s/panels%d-%s.safetensors", folder, PANEL, digits);
    return used > 0 && (size_t)used < room;
}

/* Whether the tensor is a matrix that converts to F32, and the shape of its panels. */
static int panel_shape(const tenmap_tensor *t, uint64_t shape[3]) {
    if (t->rank != 2 || tenmap_dtype_kind(t->dtype) != TENMAP_KIND_FLOAT || t->nelems == 0)
        return 0;
    shape[0] = (t->shape[0] + PANEL - 1) / PANEL;
    shape[1] = t->shape[1];
    shape[2] = PANEL;
    return 1;
}

/* Writes one matrix, panel by panel, so that memory does not grow with the model. */
static tenmap_status write_panels(tenmap_writer *writer, size_t id, const tenmap_tensor *t,
                                  tenmap_error *error) {
    uint64_t columns = t->shape[1];
    size_t bytes = (size_t)columns * PANEL * sizeof(float);
    float *rows = malloc(bytes), *panel = malloc(bytes);
    tenmap_status status = rows && panel ? TENMAP_OK : TENMAP_ERR_MEMORY;
    for (uint64_t row = 0; status == TENMAP_OK && row < t->shape[0]; row += PANEL) {
        uint64_t count = t->shape[0] - row < PANEL ? t->shape[0] - row : PANEL;
        memset(rows, 0, bytes);
        status = tenmap_read(t, row * columns, count * columns, TENMAP_F32, rows, bytes, 0, error);
        for (uint64_t c = 0; c < columns; c++)
            for (uint64_t r = 0; r < PANEL; r++)
                panel[c * PANEL + r] = rows[r * columns + c];
        if (status == TENMAP_OK)
            status = tenmap_writer_write(writer, id, row / PANEL * bytes, panel, bytes, error);
    }
    free(rows);
    free(panel);
    return status;
}

/* The writer has a name of its own until the commit, which renames the file into place. */
static tenmap_status write_cache(const tenmap_model *model, const char *path, tenmap_error *error) {
    tenmap_writer *writer = NULL;
    uint64_t shape[3];
    size_t id = 0;
    tenmap_status status = tenmap_writer_create(path, NULL, &writer, error);
    for (size_t i = 0; status == TENMAP_OK && i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (panel_shape(t, shape))
            status =
                tenmap_writer_add(writer, t->name, t->name_len, TENMAP_F32, shape, 3, &id, error);
    }
    id = 0;
    for (size_t i = 0; status == TENMAP_OK && i < tenmap_count(model); i++)
        if (panel_shape(tenmap_at(model, i), shape))
            status = write_panels(writer, id++, tenmap_at(model, i), error);
    if (status == TENMAP_OK)
        return tenmap_writer_commit(writer, error);
    tenmap_writer_abort(writer);
    return status;
}

/* Opens the cache of the model, which is made first if there is none or if it cannot be opened. */
static tenmap_status open_cache(const tenmap_model *model, const char *folder, tenmap_model **cache,
                                int *made, tenmap_error *error) {
    uint8_t fingerprint[32];
    char path[4096];
    tenmap_status status = tenmap_fingerprint(model, 0, fingerprint, error);
    if (status != TENMAP_OK)
        return status;
    if (!cache_path(folder, fingerprint, path, sizeof path)) {
        snprintf(error->message, sizeof error->message, "the path of the folder is too long");
        return TENMAP_ERR_ARGUMENT;
    }
    *made = tenmap_open(path, NULL, cache, error) != TENMAP_OK;
    if (!*made)
        return TENMAP_OK;
    status = write_cache(model, path, error);
    return status == TENMAP_OK ? tenmap_open(path, NULL, cache, error) : status;
}

/* What a kernel would do with the panels. */
static double sum_panels(const tenmap_model *cache) {
    double sum = 0;
    for (size_t i = 0; i < tenmap_count(cache); i++) {
        const float *panels = tenmap_view(tenmap_at(cache, i), TENMAP_F32, NULL);
        for (uint64_t k = 0; panels && k < tenmap_at(cache, i)->nelems; k++)
            sum += (double)panels[k] * (double)(k % 31 + 1);
    }
    return sum;
}

int main(int argc, char **argv) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model = NULL, *cache = NULL;
    tenmap_error error = {0};
    int made = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: repack MODEL CACHE-FOLDER\n");
        return 2;
    }
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    tenmap_status status = tenmap_open(argv[1], &options, &model, &error);
    if (status == TENMAP_OK)
        status = open_cache(model, argv[2], &cache, &made, &error);
    if (status == TENMAP_OK)
        printf("%s: %zu of %zu tensors in panels, sum %.17g\n", made ? "repacked" : "cached",
               tenmap_count(cache), tenmap_count(model), sum_panels(cache));
    else
        fprintf(stderr, "repack: %s\n", error.message);
    tenmap_close(cache);
    tenmap_close(model);
    return status == TENMAP_OK ? 0 : 1;
}
