/*
 * Runs examples/experts on a mixture of four times the memory that it may use, in a control group
 * if one can be made. Its result must be that of a run that holds all experts, its peak resident
 * size must not be much more than its cap, and experts that stay in memory must not be read again.
 *
 *     experts_limited PATH-OF-EXPERTS
 */
#include "limited.h"

enum { LAYERS = 8, EXPERTS = 32, N = 512, EXPERT = N * N * 4, ROUTER = EXPERTS * N * 4 };
enum { LAYER = EXPERTS * EXPERT + ROUTER, CAP = 40 * MIB, LIMIT = 64 * MIB };

/* Floats between -0.05 and 0.05, the same in each run. */
static void put_floats(FILE *out, size_t count) {
    static uint32_t state = 12345;
    static float numbers[N];
    for (size_t i = 0; i < count; i += N) {
        for (size_t k = 0; k < N; k++) {
            state = state * 1664525u + 1013904223u;
            numbers[k] = ((float)(state >> 8) / (1 << 24) - 0.5f) / 10;
        }
        fwrite(numbers, sizeof(float), N, out);
    }
}

static int write_mixture(void) {
    char json[LAYERS * 300] = "", *at = json;
    uint64_t end = 0;
    for (int i = 0; i < LAYERS; i++, end += LAYER)
        at += sprintf(at,
                      "%s\"blk.%d.ffn_gate_inp.weight\":{\"dtype\":\"F32\",\"shape\":[%d,%d],"
                      "\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]},"
                      "\"blk.%d.ffn_exps.weight\":{\"dtype\":\"F32\",\"shape\":[%d,%d,%d],"
                      "\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                      i ? "," : "{", i, EXPERTS, N, end, end + ROUTER, i, EXPERTS, N, N,
                      end + ROUTER, end + LAYER);
    strcpy(at, "}");
    while (strlen(json) % 8) /* so that floats are aligned */
        strcat(json, " ");
    FILE *out = begin_model(json);
    if (!out)
        return 0;
    put_floats(out, (size_t)end / sizeof(float));
    return end_model(out);
}

int main(int argc, char **argv) {
    char limited[512] = "", all[512] = "";
    if (argc != 2 || !make_place())
        return give_up("usage: experts_limited PATH-OF-EXPERTS");
    if (!write_mixture())
        return give_up(model);
    int grouped = make_group(LIMIT);
    if (!grouped)
        printf("SKIPPED: no control group can be made here; only the peak is checked\n");
    char *const capped[] = {argv[1], model, "40", "24", NULL};
    char *const holding[] = {argv[1], model, "4096", "24", NULL};
    uint64_t peak = run(capped, grouped, limited, sizeof limited);
    uint64_t other = run(holding, 0, all, sizeof all);
    printf("%s%speak %.1f MiB with a cap of %d MiB, %.1f MiB without; model %d MiB, limit %s\n",
           limited, all, (double)peak / MIB, CAP / MIB, (double)other / MIB,
           (int)((int64_t)LAYERS * LAYER / MIB), grouped ? "64 MiB" : "none");
    if (!peak || !other || peak > CAP + 16 * (uint64_t)MIB)
        return 1;
    const char *sum = strstr(limited, "sum "), *same = strstr(all, "sum ");
    return !sum || !same || strcmp(sum, same) != 0;
}
