/*
 * Runs examples/stream on a model of five times the memory that it may use, in a control group if
 * one can be made, and compares its peak resident size with two layers.
 *
 *     stream_limited PATH-OF-STREAM
 */
#include "limited.h"

enum { LAYERS = 16, TENSORS = 2, TENSOR = 16 * MIB, LAYER = TENSORS * TENSOR };
enum { LIMIT = 100 * MIB, MODEL_OVER_LIMIT = LAYERS * LAYER / LIMIT };

static int write_layers(void) {
    static uint32_t bytes[MIB / 4];
    char json[LAYERS * TENSORS * 128] = "", *at = json;
    uint64_t end = 0;
    for (int i = 0; i < LAYERS * TENSORS; i++, end += TENSOR)
        at += sprintf(at,
                      "%s\"model.layers.%d.part%d\":{\"dtype\":\"BF16\",\"shape\":[%d],"
                      "\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                      i ? "," : "{", i / TENSORS, i % TENSORS, TENSOR / 2, end, end + TENSOR);
    strcpy(at, "}");
    FILE *out = begin_model(json);
    if (!out)
        return 0;
    for (uint64_t i = 0; i < end / MIB; i++) {
        for (size_t k = 0; k < MIB / 4; k++)
            bytes[k] = (uint32_t)(i * 2654435761u + k * 40503u);
        fwrite(bytes, 1, MIB, out);
    }
    return end_model(out);
}

int main(int argc, char **argv) {
    char limited[512] = "", free_run[512];
    if (argc != 2 || !make_place())
        return give_up("usage: stream_limited PATH-OF-STREAM");
    if (!write_layers())
        return give_up(model);
    int grouped = make_group(LIMIT);
    if (!grouped)
        printf("SKIPPED: no control group can be made here; only the peak is checked\n");
    char *const arguments[] = {argv[1], model, NULL};
    uint64_t peak = run(arguments, grouped, limited, sizeof limited);
    uint64_t other = run(arguments, 0, free_run, sizeof free_run);
    double ratio = (double)peak / (2.0 * LAYER);
    printf("%speak %.1f MiB, %.2f of two layers; model %d MiB, limit %s\n", limited,
           (double)peak / MIB, ratio, LAYERS * LAYER / MIB, grouped ? "100 MiB" : "none");
    if (!peak || !other || ratio > 1.3 || MODEL_OVER_LIMIT < 4)
        return 1;
    const char *sum = strstr(limited, "sum "), *same = strstr(free_run, "sum ");
    return !sum || !same || strcmp(sum, same) != 0;
}
