/*
 * Libraries that look like libcurl to dlopen, for test_http_find_curl.c and no_curl.sh. Their
 * functions do nothing. FAKE_VERSION is the version as text, FAKE_NUMBER as a number, and
 * FAKE_LACKS leaves out curl_url_set.
 */
#define FUNCTION(name)                                                                             \
    void curl_##name(void);                                                                        \
    void curl_##name(void) {}

FUNCTION(global_init)
FUNCTION(global_cleanup)
FUNCTION(easy_init)
FUNCTION(easy_setopt)
FUNCTION(easy_getinfo)
FUNCTION(easy_perform)
FUNCTION(easy_cleanup)
FUNCTION(easy_strerror)
FUNCTION(slist_append)
FUNCTION(slist_free_all)
FUNCTION(url)
#ifndef FAKE_LACKS
FUNCTION(url_set)
#endif
FUNCTION(url_get)
FUNCTION(url_cleanup)
FUNCTION(free)

struct version {
    int age;
    const char *version;
    unsigned int number;
};

const struct version *curl_version_info(int age);

const struct version *curl_version_info(int age) {
    static const struct version fake = {0, FAKE_VERSION, FAKE_NUMBER};
    (void)age;
    return &fake;
}
