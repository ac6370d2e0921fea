/*
 * Finds libcurl when the first tenmap_io is created, so that a program that never opens an address
 * runs without it.
 */
#include "http.h"

#include "curl_functions.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(TENMAP_LINK_SYSTEM_LIBRARIES)
#define FIND_BY_LINKING
#elif !defined(TENMAP_NO_DLOPEN)
#define FIND_BY_DLOPEN
#include <dlfcn.h>
#endif

#if defined(FIND_BY_DLOPEN)

/* Where libcurl usually is. Names without a folder are searched for by the system's loader. */
static const char *const usual_names[] = {
#ifdef __APPLE__
    /* macOS's own, then Homebrew's and MacPorts', which may be newer. */
    "/usr/lib/libcurl.4.dylib",
    "libcurl.4.dylib",
    "/opt/homebrew/opt/curl/lib/libcurl.4.dylib",
    "/usr/local/opt/curl/lib/libcurl.4.dylib",
    "/opt/local/lib/libcurl.4.dylib",
#else
    /* The second and the third are Debian's, for other TLS libraries. */
    "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4", "libcurl.so",
#endif
    NULL};

static const struct {
    const char *name;
    size_t at; /* of its field in the table */
} functions[] = {
#define ROW(name) {"curl_" #name, offsetof(tmh_curl_functions, name)},
    TMH_CURL_FUNCTIONS(ROW)
#undef ROW
};

_Static_assert(sizeof functions / sizeof functions[0] ==
                   sizeof(tmh_curl_functions) / sizeof(void (*)(void)),
               "TMH_CURL_FUNCTIONS names all fields");

/* What to do about a libcurl that is missing or too old; the end of a message. */
#ifdef __APPLE__
#define INSTALL "install curl with Homebrew (brew install curl)"
#else
#define INSTALL "install libcurl4 (Debian, Ubuntu), libcurl (Fedora, Alpine) or curl (Arch)"
#endif

/* False if a function is missing; its name is in *missing then. */
static bool find_functions(void *library, tmh_curl_functions *out, const char **missing) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *address = dlsym(library, functions[i].name);
        *missing = functions[i].name;
        if (!address)
            return false;
        memcpy((char *)out + functions[i].at, &address, sizeof address);
    }
    return true;
}

/* Fills *error if the library does not have what is needed. */
static bool takes_library(const char *name, void *library, tmh_curl_functions *out,
                          tenmap_error *error) {
    const char *missing;
    /* The version comes first: a libcurl that lacks a function is usually too old. */
    const tmh_curl_version *(*version_info)(int age) = NULL;
    void *address = dlsym(library, "curl_version_info");
    memcpy(&version_info, &address, sizeof address);
    const tmh_curl_version *v = version_info ? version_info(TMH_CURLVERSION_FIRST) : NULL;
    if (v && v->number < TMH_CURL_OLDEST)
        tmh_fail(error, TENMAP_ERR_UNSUPPORTED,
                 "addresses cannot be opened: %.80s is libcurl %.20s, and " TMH_CURL_OLDEST_TEXT
                 " or newer is needed: " INSTALL,
                 name, v->version);
    else if (!find_functions(library, out, &missing))
        tmh_fail(error, TENMAP_ERR_UNSUPPORTED,
                 "addresses cannot be opened: %.80s lacks the function %s, so it is not "
                 "libcurl " TMH_CURL_OLDEST_TEXT " or newer: " INSTALL,
                 name, missing);
    else
        return true;
    return false;
}

tenmap_status tmh_load_curl(const char *const *names, tmh_curl_functions *out, void **library,
                            tenmap_error *error) {
    /* Says why the first library that was found is not used. */
    tenmap_error unfit = {.status = TENMAP_OK};
    char reason[160] = "";
    for (; *names; names++) {
        tenmap_error why = {.status = TENMAP_OK};
        *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (*library && takes_library(*names, *library, out, &why))
            return TENMAP_OK;
        if (*library) {
            dlclose(*library);
            if (unfit.status == TENMAP_OK)
                unfit = why;
        } else if (!reason[0]) {
            const char *said = dlerror();
            snprintf(reason, sizeof reason, "%s", said ? said : "no reason is known");
        }
    }
    *library = NULL;
    if (unfit.status == TENMAP_OK)
        return tmh_fail(error, TENMAP_ERR_UNSUPPORTED,
                        "addresses cannot be opened: libcurl was not found (%s): " INSTALL, reason);
    *error = unfit;
    return error->status;
}

#else

tenmap_status tmh_load_curl(const char *const *names, tmh_curl_functions *out, void **library,
                            tenmap_error *error) {
    (void)names, (void)out, (void)library;
    return tmh_fail(error, TENMAP_ERR_UNSUPPORTED, "this build of tenmap loads no libraries");
}

#endif

#if defined(FIND_BY_LINKING)

#define DECLARE(name) extern __typeof__(*((tmh_curl_functions *)0)->name) curl_##name;
TMH_CURL_FUNCTIONS(DECLARE)
#undef DECLARE

const tmh_curl_functions *tmh_curl(void) {
    static const tmh_curl_functions linked = {
#define FIELD(name) .name = curl_##name,
        TMH_CURL_FUNCTIONS(FIELD)
#undef FIELD
    };
    return &linked;
}

tenmap_status tmh_find_curl(tenmap_error *error) {
    const tmh_curl_version *v = tmh_curl()->version_info(TMH_CURLVERSION_FIRST);
    if (v->number >= TMH_CURL_OLDEST)
        return TENMAP_OK;
    return tmh_fail(error, TENMAP_ERR_UNSUPPORTED,
                    "addresses cannot be opened: this is libcurl %.20s, and " TMH_CURL_OLDEST_TEXT
                    " or newer is needed",
                    v->version);
}

#else

/* Set once, and then never freed. */
static _Atomic(tmh_curl_functions *) loaded;

const tmh_curl_functions *tmh_curl(void) {
    return atomic_load(&loaded);
}

#if defined(FIND_BY_DLOPEN)

/*
 * Takes no lock, which a child of fork could find taken. Of several threads that load it at the
 * same time, all get the same library, and the first one's table stays.
 */
tenmap_status tmh_find_curl(tenmap_error *error) {
    void *library = NULL;
    if (atomic_load(&loaded))
        return TENMAP_OK;
    tmh_curl_functions *table = malloc(sizeof *table), *none = NULL;
    if (!table)
        return tmh_fail_memory(error, "the functions of libcurl");
    tenmap_status status = tmh_load_curl(usual_names, table, &library, error);
    if (status == TENMAP_OK && atomic_compare_exchange_strong(&loaded, &none, table))
        return TENMAP_OK;
    if (library) /* another thread was first */
        dlclose(library);
    free(table);
    return status;
}

#else

tenmap_status tmh_find_curl(tenmap_error *error) {
    return tmh_fail(error, TENMAP_ERR_UNSUPPORTED,
                    "addresses cannot be opened: this build of tenmap has no network part, because "
                    "a static program cannot load libcurl; use a build that is not static");
}

#endif
#endif

const char *tenmap_http_curl_version(tenmap_error *error) {
    tenmap_error unused = {.status = TENMAP_OK};
    if (tmh_find_curl(error ? error : &unused) != TENMAP_OK)
        return NULL;
    return tmh_curl()->version_info(TMH_CURLVERSION_FIRST)->version;
}
