/*
 * How libcurl is found at run time, whether the numbers of its binary interface are right, and
 * which certificates are used. FAKE_FOLDER holds libraries that look like libcurl (fake_curl.c).
 */
#include "http.h"

#include "curl_functions.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_CURL_HEADER
#define CURL_DISABLE_DEPRECATION /* old libraries are used through old options */
#include <curl/curl.h>
#endif

#include <cmocka.h>

static const char absent[] = FAKE_FOLDER "/libfake_curl_absent.so";
static const char good[] = FAKE_FOLDER "/libfake_curl_good.so";
static const char old[] = FAKE_FOLDER "/libfake_curl_old.so";
static const char lacking[] = FAKE_FOLDER "/libfake_curl_lacking.so";

static void says(const tenmap_error *error, const char *fragment) {
    if (!strstr(error->message, fragment))
        fail_msg("\"%s\" lacks \"%s\"", error->message, fragment);
}

static bool is_loaded(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (library)
        dlclose(library);
    return library != NULL;
}

static void refuses(const char *const *names, tenmap_error *error) {
    tmh_curl_functions functions;
    void *library = error;
    memset(error, 0, sizeof *error);
    assert_int_equal(tmh_load_curl(names, &functions, &library, error), TENMAP_ERR_UNSUPPORTED);
    assert_null(library);
    assert_int_equal(error->status, TENMAP_ERR_UNSUPPORTED);
}

static void test_the_first_library_that_fits_is_taken(void **state) {
    (void)state;
    const char *const names[] = {absent, old, lacking, good, absent, NULL};
    tmh_curl_functions functions;
    tenmap_error error = {.status = TENMAP_OK};
    void *library;
    assert_int_equal(tmh_load_curl(names, &functions, &library, &error), TENMAP_OK);
    assert_string_equal(functions.version_info(0)->version, TMH_CURL_OLDEST_TEXT);
    assert_int_equal(functions.version_info(0)->number, TMH_CURL_OLDEST);
    unsigned char *all = (unsigned char *)&functions; /* no entry is NULL */
    for (size_t i = 0; i < sizeof functions / sizeof(void *); i++) {
        static const unsigned char nothing[sizeof(void *)];
        assert_memory_not_equal(all + i * sizeof(void *), nothing, sizeof(void *));
    }
    dlclose(library);
    assert_false(is_loaded(old));
    assert_false(is_loaded(lacking));
}

static void test_an_absent_library_says_what_to_install(void **state) {
    (void)state;
    const char *const names[] = {absent, NULL};
    tenmap_error error;
    refuses(names, &error);
    says(&error, "libcurl was not found");
    says(&error, "libfake_curl_absent.so");
    says(&error, "install");
}

static void test_an_old_library_names_both_versions(void **state) {
    (void)state;
    const char *const names[] = {absent, old, NULL};
    tenmap_error error;
    refuses(names, &error);
    says(&error, "libfake_curl_old.so is libcurl 7.73.0, and 7.74.0 or newer is needed");
    says(&error, "install");
    assert_false(is_loaded(old));
}

static void test_a_missing_function_is_named(void **state) {
    (void)state;
    const char *const names[] = {lacking, old, NULL};
    tenmap_error error;
    refuses(names, &error);
    says(&error, "libfake_curl_lacking.so lacks the function curl_url_set");
    assert_false(is_loaded(lacking));
}

static void *find_it(void *out) {
    tenmap_error error;
    if (tmh_find_curl(&error) == TENMAP_OK)
        *(const void **)out = tmh_curl();
    return NULL;
}

static void test_all_threads_find_the_same_functions(void **state) {
    (void)state;
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    const void *found[THREADS] = {NULL};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, find_it, &found[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        assert_ptr_equal(found[0], found[i]);
    tenmap_error error = {.status = TENMAP_OK};
    const char *version = tenmap_http_curl_version(&error);
    if (!version) {
        says(&error, "libcurl");
        print_message("SKIPPED: %s\n", error.message);
        skip();
    }
    assert_ptr_equal(found[0], tmh_curl());
    assert_ptr_equal(version, tenmap_http_curl_version(NULL));
    tenmap_io io;
    assert_int_equal(tenmap_http_create(NULL, &io, &error), TENMAP_OK);
    tenmap_http_destroy(&io);
    assert_ptr_equal(found[0], tmh_curl()); /* destroying the last io unloads nothing */
}

static void test_constants_and_structs_are_those_of_curls_header(void **state) {
    (void)state;
#ifdef HAVE_CURL_HEADER
    size_t count = 0;
#define COMPARE(name, value)                                                                       \
    if ((long)(name) != (long)(value) || (long)TMH_##name != (long)(value))                        \
        fail_msg("%s is %ld in curl/curl.h", #name, (long)(name));                                 \
    count++;
    TMH_CURL_CONSTANTS(COMPARE)
    assert_true(count > 50);
    print_message("%zu constants are those of curl %s\n", count, LIBCURL_VERSION);
#define AT(field, name)                                                                            \
    assert_int_equal(offsetof(tmh_curl_version, field), offsetof(curl_version_info_data, name))
    AT(age, age);
    AT(version, version);
    AT(number, version_num);
#undef AT
#define AT(name)                                                                                   \
    assert_int_equal(offsetof(tmh_curl_sockaddr, name), offsetof(struct curl_sockaddr, name))
    AT(family);
    AT(socktype);
    AT(protocol);
    AT(addrlen);
    AT(addr);
    assert_int_equal(sizeof(tmh_curl_sockaddr), sizeof(struct curl_sockaddr));
    assert_int_equal(sizeof(curl_socket_t), sizeof(int));
    assert_int_equal(sizeof(curl_off_t), sizeof(int64_t));
    assert_int_equal(sizeof(CURLcode), sizeof(int));
#else
    print_message("SKIPPED: curl/curl.h is not here (Debian: libcurl4-openssl-dev)\n");
    skip();
#endif
}

static void test_certificates_are_looked_for_only_if_curl_has_none(void **state) {
    (void)state;
    char file[] = "/tmp/tenmap-ca-XXXXXX";
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    const char *const places[] = {"/nonexistent/a.pem", file, "/nonexistent/b.pem", NULL};
    const char *const none[] = {"/nonexistent/a.pem", NULL};
    assert_null(tmh_ca_bundle(file, NULL, places));
    assert_null(tmh_ca_bundle(file, "/nonexistent", places));
    assert_null(tmh_ca_bundle(NULL, "/tmp", places));
    assert_ptr_equal(tmh_ca_bundle("/nonexistent/c.pem", NULL, places), file);
    assert_ptr_equal(tmh_ca_bundle("/nonexistent/c.pem", "/tmp", places), file);
    assert_ptr_equal(tmh_ca_bundle(NULL, "/nonexistent", places), file);
    assert_null(tmh_ca_bundle("/nonexistent/c.pem", NULL, none));
#ifdef __APPLE__
    assert_null(tmh_ca_bundle(NULL, NULL, places));
#else
    assert_ptr_equal(tmh_ca_bundle(NULL, NULL, places), file);
#endif
    unlink(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_library_that_fits_is_taken),
        cmocka_unit_test(test_an_absent_library_says_what_to_install),
        cmocka_unit_test(test_an_old_library_names_both_versions),
        cmocka_unit_test(test_a_missing_function_is_named),
        cmocka_unit_test(test_all_threads_find_the_same_functions),
        cmocka_unit_test(test_constants_and_structs_are_those_of_curls_header),
        cmocka_unit_test(test_certificates_are_looked_for_only_if_curl_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
