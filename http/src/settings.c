/* Options and environment: read once, checked, copied. */
#include "http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sha256.h"

/* The variable's value, if it is set and not empty; else NULL. */
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static const char *first_variable(const char *const *names) {
    for (; *names; names++)
        if (variable(*names))
            return variable(*names);
    return NULL;
}

static tenmap_status take_options(tenmap_http_options *out, const tenmap_http_options *given,
                                  tenmap_error *error) {
    *out = (tenmap_http_options)TENMAP_HTTP_OPTIONS_INIT;
    if (!given)
        return TENMAP_OK;
    size_t size = given->struct_size;
    if (size < offsetof(tenmap_http_options, stop) || size > 4096)
        return tmh_fail(error, TENMAP_ERR_ARGUMENT,
                        "options.struct_size is %llu; start from TENMAP_HTTP_OPTIONS_INIT, which "
                        "sets it to sizeof(tenmap_http_options), here %llu",
                        (ull)size, (ull)sizeof *out);
    for (size_t i = sizeof *out; i < size; i++)
        if (((const unsigned char *)given)[i])
            return tmh_fail(error, TENMAP_ERR_ARGUMENT,
                            "options uses a field at byte %llu that this version of the library "
                            "does not know",
                            (ull)i);
    memcpy(out, given, size < sizeof *out ? size : sizeof *out);
    if (out->flags)
        return tmh_fail(error, TENMAP_ERR_ARGUMENT, "options.flags has unknown bits: 0x%x",
                        (unsigned)out->flags);
    return TENMAP_OK;
}

/*
 * Tokens, keys and names become parts of header lines, so bytes that could end a line are refused.
 */
static tenmap_status check_word(const char *text, const char *what, bool blanks,
                                tenmap_error *error) {
    for (const char *c = text; c && *c; c++)
        if ((unsigned char)*c > '~' || (unsigned char)*c < (blanks ? ' ' : '!'))
            return tmh_fail(error, TENMAP_ERR_ARGUMENT,
                            "%s holds a character that cannot be sent: it must be printable ASCII",
                            what);
    return TENMAP_OK;
}

/* The first line of the hub's token file; NULL if there is none. */
static char *read_token_file(void) {
    tmh_text path = {.bytes = NULL};
    char line[1024];
    const char *own = variable("HF_TOKEN_PATH"), *hub = variable("HF_HOME"),
               *cache = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    if (!own && !hub && !cache && !home)
        return NULL;
    tmh_adds(&path, own ? own : hub ? hub : cache ? cache : home);
    tmh_adds(&path, own     ? ""
                    : hub   ? "/token"
                    : cache ? "/huggingface/token"
                            : "/.cache/huggingface/token");
    FILE *file = path.failed ? NULL : fopen(path.bytes, "re");
    free(path.bytes);
    if (!file)
        return NULL;
    char *got = fgets(line, sizeof line, file);
    fclose(file);
    size_t len = got ? strcspn(line, " \t\r\n") : 0;
    char *token = len ? tmh_copy(line, len) : NULL;
    tmi_wipe(line, sizeof line);
    return token;
}

static tenmap_status take_token(tmh_settings *s, const tenmap_http_options *o,
                                tenmap_error *error) {
    s->hub_source = "without a token";
    if (o->token) {
        if (!*o->token)
            return TENMAP_OK;
        s->hub_source = "with the token that was given";
        s->token = tmh_copy(o->token, strlen(o->token));
        s->hub_token = tmh_copy(o->token, strlen(o->token));
        if (!s->token || !s->hub_token)
            return tmh_fail_memory(error, "a token");
        return check_word(o->token, "the token", false, error);
    }
    static const struct {
        const char *name, *said;
    } from[] = {{"HF_TOKEN", "with the token of HF_TOKEN"},
                {"HUGGING_FACE_HUB_TOKEN", "with the token of HUGGING_FACE_HUB_TOKEN"}};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        const char *token = variable(from[i].name);
        if (!token)
            continue;
        s->hub_source = from[i].said;
        s->hub_token = tmh_copy(token, strcspn(token, " \t\r\n"));
        return s->hub_token ? check_word(s->hub_token, from[i].name, false, error)
                            : tmh_fail_memory(error, "a token");
    }
    s->hub_token = read_token_file();
    if (s->hub_token)
        s->hub_source = "with the token of the hub's token file";
    return check_word(s->hub_token, "the hub's token file", false, error);
}

/* Takes an endpoint: a web address without a query, stored without a trailing '/'. */
static tenmap_status take_endpoint(char **out, const char *text, tenmap_error *error) {
    tmh_address address;
    size_t len = strlen(text);
    tenmap_status status = tmh_address_read(&address, text, error);
    bool fine = status == TENMAP_OK && tmh_web_scheme(text) && !address.query;
    tmh_address_free(&address);
    if (status != TENMAP_OK)
        return status;
    if (!fine)
        return tmh_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: an endpoint is an address like https://HOST, without a query",
                        tmh_show(text).text);
    while (len && text[len - 1] == '/')
        len--;
    *out = tmh_copy(text, len);
    return *out ? TENMAP_OK : tmh_fail_memory(error, "an endpoint");
}

static tenmap_status take_endpoints(tmh_settings *s, const tenmap_http_options *o,
                                    tenmap_error *error) {
    static const char *const s3_names[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL};
    const char *hub = o->endpoint ? o->endpoint : variable("HF_ENDPOINT");
    const char *s3 = o->endpoint ? o->endpoint : first_variable(s3_names);
    tenmap_status status = take_endpoint(&s->hub, hub ? hub : "https://huggingface.co", error);
    if (status == TENMAP_OK && s3)
        status = take_endpoint(&s->s3, s3, error);
    return status;
}

static tenmap_status copy_variable(char **out, const char *value, const char *what,
                                   tenmap_error *error) {
    if (!value)
        return TENMAP_OK;
    *out = tmh_copy(value, strlen(value));
    return *out ? check_word(value, what, false, error) : tmh_fail_memory(error, what);
}

static tenmap_status take_keys(tmh_settings *s, tenmap_error *error) {
    static const char *const regions[] = {"AWS_REGION", "AWS_DEFAULT_REGION", NULL};
    const char *region = first_variable(regions), *id = variable("AWS_ACCESS_KEY_ID"),
               *secret = variable("AWS_SECRET_ACCESS_KEY");
    tenmap_status status =
        copy_variable(&s->region, region ? region : "us-east-1", "the region", error);
    if (status != TENMAP_OK || !id || !secret)
        return status; /* half a pair of keys is useless */
    status = copy_variable(&s->keys.id, id, "AWS_ACCESS_KEY_ID", error);
    if (status == TENMAP_OK)
        status = copy_variable(&s->keys.secret, secret, "AWS_SECRET_ACCESS_KEY", error);
    if (status == TENMAP_OK)
        status = copy_variable(&s->keys.session, variable("AWS_SESSION_TOKEN"), "AWS_SESSION_TOKEN",
                               error);
    return status;
}

static tenmap_status take_client(tmh_settings *s, const tenmap_http_options *o,
                                 tenmap_error *error) {
    static const char *const bundles[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE", NULL};
    const char *file = first_variable(bundles), *folder = variable("SSL_CERT_DIR");
    tmh_text agent = {.bytes = NULL};
    if (o->user_agent)
        tmh_adds(&agent, o->user_agent);
    else
        tmh_adds(&agent, "tenmap/" TENMAP_VERSION_TEXT);
    s->user_agent = tmh_take(&agent);
    s->ca_file = file ? tmh_copy(file, strlen(file)) : NULL;
    s->ca_folder = folder ? tmh_copy(folder, strlen(folder)) : NULL;
    if (!s->user_agent || (file && !s->ca_file) || (folder && !s->ca_folder))
        return tmh_fail_memory(error, "the options");
    s->connections = o->connections ? o->connections : 8;
    if (s->connections > 64)
        s->connections = 64;
    s->retries = o->retries ? o->retries : 5;
    if (s->retries > 100)
        s->retries = 100;
    s->timeout_ms = o->timeout_ms ? o->timeout_ms : 30000;
    if (s->timeout_ms > 3600000)
        s->timeout_ms = 3600000;
    s->stop = o->stop;
    s->stop_ctx = o->ctx;
    return check_word(s->user_agent, "options.user_agent", true, error);
}

tenmap_status tmh_settings_read(tmh_settings *settings, const tenmap_http_options *options,
                                tenmap_error *error) {
    tenmap_http_options o;
    *settings = (tmh_settings){.token = NULL};
    tenmap_status status = take_options(&o, options, error);
    if (status == TENMAP_OK)
        status = take_token(settings, &o, error);
    if (status == TENMAP_OK)
        status = take_endpoints(settings, &o, error);
    if (status == TENMAP_OK)
        status = take_keys(settings, error);
    if (status == TENMAP_OK)
        status = take_client(settings, &o, error);
    return status;
}

static void forget(char *secret) {
    if (secret)
        tmi_wipe(secret, strlen(secret));
    free(secret);
}

void tmh_settings_free(tmh_settings *settings) {
    forget(settings->token);
    forget(settings->hub_token);
    forget(settings->keys.id);
    forget(settings->keys.secret);
    forget(settings->keys.session);
    free(settings->hub);
    free(settings->s3);
    free(settings->region);
    free(settings->user_agent);
    free(settings->ca_file);
    free(settings->ca_folder);
    *settings = (tmh_settings){.token = NULL};
}
