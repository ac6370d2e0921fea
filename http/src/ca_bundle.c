/*
 * Which file of trusted certificates to use if neither the environment nor libcurl itself has one.
 * A libcurl of a distribution knows where its certificates are. One that was built elsewhere may
 * name a file that does not exist here.
 */
#include "http.h"

#include <sys/stat.h>

/* Where systems keep them. */
static const char *const usual_bundles[] = {
    "/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Arch, Alpine, Gentoo */
    "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem", /* openSUSE */
    "/etc/ssl/cert.pem",      /* macOS, FreeBSD, OpenBSD */
    "/usr/local/share/certs/ca-root-nss.crt",
    NULL};

static bool is_file(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

static bool is_folder(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

const char *tmh_ca_bundle(const char *own_file, const char *own_folder,
                          const char *const *bundles) {
    if (own_file ? is_file(own_file) : own_folder && is_folder(own_folder))
        return NULL;
#ifdef __APPLE__
    if (!own_file && !own_folder)
        return NULL; /* this libcurl asks the system's key chain */
#endif
    for (bundles = bundles ? bundles : usual_bundles; *bundles; bundles++)
        if (is_file(*bundles))
            return *bundles;
    return NULL;
}
