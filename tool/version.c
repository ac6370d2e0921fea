/* `tenmap --version`: the version, and what this build is made of. */
#include "version.h"

#include <stdio.h>

#include <tenmap.h>

#ifdef TOOL_HAVE_HTTP
#include <tenmap_http.h>
#endif

#define TEXT_OF_WORD(word) #word
#define TEXT_OF(macro) TEXT_OF_WORD(macro)
#if defined(__clang__)
#define COMPILER                                                                                   \
    "clang " TEXT_OF(__clang_major__) "." TEXT_OF(__clang_minor__) "." TEXT_OF(__clang_patchlevel__)
#elif defined(__GNUC__)
#define COMPILER "GCC " __VERSION__
#else
#define COMPILER "unknown"
#endif

static void print_row(const char *name, const char *value) {
    printf("%-13s %s\n", name, value);
}

/* Addresses need libcurl, which is looked for when the first one is opened. */
static void print_curl(void) {
#ifdef TOOL_HAVE_HTTP
    tenmap_error error;
    const char *version = tenmap_http_curl_version(&error);
    print_row("libcurl", version ? version : error.message);
#else
    print_row("libcurl", "none: this build of tenmap has no network part");
#endif
}

void print_version(void) {
    puts("tenmap " TENMAP_VERSION_TEXT);
#ifdef TOOL_COMMIT
    print_row("commit", TOOL_COMMIT);
#endif
    print_row("compiler", COMPILER);
    print_row("instructions", tenmap_cpu_path());
    print_curl();
}
