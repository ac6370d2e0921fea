/* Opens a model in memory with the package, and reads a tensor of it. */
#include <stdio.h>
#include <string.h>

#include <tenmap.h>
#ifdef WITH_HTTP
#include <tenmap_http.h>
#endif

int main(void) {
    static const char header[] =
        "{\"w\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}}";
    unsigned char file[8 + sizeof header - 1 + 4] = {sizeof header - 1};
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + 8 + sizeof header - 1, "\x80\x3f\x00\xc0", 4);
    tenmap_error error = {0};
    tenmap_model *model;
    if (tenmap_open_memory(file, sizeof file, NULL, &model, &error) != TENMAP_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    float values[2];
    tenmap_status status =
        tenmap_read(tenmap_find(model, "w"), 0, 2, TENMAP_F32, values, sizeof values, 0, &error);
    tenmap_close(model);
    printf("version %u: %g %g\n", (unsigned)tenmap_version(), (double)values[0], (double)values[1]);
#ifdef WITH_HTTP
    printf("an address: %d\n", tenmap_http_takes("https://localhost/x"));
#endif
    return !(status == TENMAP_OK && values[0] == 1 && values[1] == -2);
}
