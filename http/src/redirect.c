/* Where a redirect leads, and whether it is allowed. */
#include "http.h"

#include "curl_functions.h"

#include <stdlib.h>
#include <string.h>

static tenmap_status refuse(const tmh_file *file, tenmap_error *error, const char *why) {
    return tmh_fail(error, TENMAP_ERR_IO, "%s: the server redirects %s", tmh_show(file->given).text,
                    why);
}

/* Whether the address has this part. */
static bool has_part(void *parts, int part) {
    char *text = NULL;
    bool has = tmh_curl()->url_get(parts, part, &text, 0) == TMH_CURLUE_OK && text && *text;
    tmh_curl()->free(text);
    return has;
}

tenmap_status tmh_redirect(const tmh_file *file, const char *url, const char *location, char **next,
                           tenmap_error *error) {
    const tmh_curl_functions *curl = tmh_curl();
    char *found = NULL;
    void *parts = curl->url();
    *next = NULL;
    if (!parts)
        return tmh_fail_memory(error, "an address");
    bool fine =
        curl->url_set(parts, TMH_CURLUPART_URL, url, TMH_CURLU_PATH_AS_IS) == TMH_CURLUE_OK &&
        curl->url_set(parts, TMH_CURLUPART_URL, location,
                      TMH_CURLU_PATH_AS_IS | TMH_CURLU_URLENCODE | TMH_CURLU_NON_SUPPORT_SCHEME) ==
            TMH_CURLUE_OK &&
        curl->url_set(parts, TMH_CURLUPART_FRAGMENT, NULL, 0) == TMH_CURLUE_OK &&
        curl->url_get(parts, TMH_CURLUPART_URL, &found, 0) == TMH_CURLUE_OK;
    tenmap_status status = TENMAP_OK;
    if (!fine)
        status = refuse(file, error, "to something that is not an address");
    else if (!tmh_web_scheme(found))
        status = refuse(file, error, "to an address that is neither http:// nor https://");
    else if (has_part(parts, TMH_CURLUPART_USER) || has_part(parts, TMH_CURLUPART_PASSWORD))
        status = refuse(file, error, "to an address that holds a user name or a password");
    else if (tmh_web_scheme(url) == strlen("https://") &&
             tmh_web_scheme(found) == strlen("http://"))
        status =
            refuse(file, error,
                   "from https:// to http://, which would give up encryption; it is not followed");
    else if (!(*next = tmh_copy(found, strlen(found))))
        status = tmh_fail_memory(error, "an address");
    curl->free(found);
    curl->url_cleanup(parts);
    return status;
}
