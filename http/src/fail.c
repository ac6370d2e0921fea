/* Error messages for failed requests and unexpected responses. */
#include "http.h"

#include "curl_functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

tenmap_status tmh_fail_wrong(const tmh_file *file, const tmh_request *request, tmh_wrong wrong,
                             tenmap_error *error) {
    const tmh_answer *a = &request->answer;
    tmh_shown shown = tmh_show(file->given);
    switch (wrong) {
    case TMH_WHOLE:
        return tmh_remedy(
            error, TENMAP_REMEDY_DOWNLOAD,
            tmh_fail(error, TENMAP_ERR_UNSUPPORTED,
                     "%s: the server answers a request for a part of the file with the whole "
                     "file, so parts cannot be read from it: download the file",
                     shown.text));
    case TMH_COMPRESSED:
        return tmh_fail(error, TENMAP_ERR_IO,
                        "%s: the server compresses its answer though it was asked not to, so the "
                        "bytes are not those of the file",
                        shown.text);
    case TMH_OTHER_RANGE:
        if (!a->has_range || a->unsatisfied)
            return tmh_fail(error, TENMAP_ERR_IO,
                            "%s: the server does not say which bytes of the file it answers with",
                            shown.text);
        return tmh_fail(error, TENMAP_ERR_IO,
                        "%s: the server answers with bytes %llu to %llu of %llu, which are not the "
                        "requested ones",
                        shown.text, (ull)a->first, (ull)a->last, (ull)a->total);
    case TMH_OTHER_LENGTH:
        return tmh_fail(error, TENMAP_ERR_IO,
                        "%s: the server's answer is longer or shorter than the bytes %llu to %llu "
                        "that it announces",
                        shown.text, (ull)a->first, (ull)a->last);
    case TMH_LONG_PAGE:
        return tmh_remedy(
            error, TENMAP_REMEDY_OPEN_ONE,
            tmh_fail(error, TENMAP_ERR_LIMIT,
                     "%s: a page of the listing has more than %d bytes, the limit; open a file "
                     "of the folder by its name",
                     shown.text, (int)TMH_LONGEST_PAGE));
    case TMH_OPEN_ENDED:
        return tmh_fail(error, TENMAP_ERR_IO,
                        "%s: the server answers with the whole file and does not say how long it "
                        "is, so a truncated answer could be mistaken for the whole file",
                        shown.text);
    default:
        return tmh_remedy(
            error, TENMAP_REMEDY_OPEN_AGAIN,
            tmh_fail(error, TENMAP_ERR_IO,
                     "%s: the file has changed on the server since it was opened: open it again",
                     shown.text));
    }
}

/* The error code that X-Error-Code or S3's XML gives, into a buffer; "" if there is none. */
static void error_code(const tmh_request *request, char *out, size_t room) {
    char *code = request->said.bytes && !request->answer.error_code[0]
                     ? tmh_xml_text(request->said.bytes, request->said.len, "Code")
                     : NULL;
    const char *text = code ? code : request->answer.error_code;
    size_t len = 0;
    for (; text[len] && len + 1 < room; len++)
        out[len] = (text[len] >= 'a' && text[len] <= 'z') || (text[len] >= 'A' && text[len] <= 'Z')
                       ? text[len]
                       : '?';
    out[len] = '\0';
    free(code);
}

static tenmap_status fail_permission(const tmh_file *file, int status, const char *code, bool sent,
                                     tenmap_error *error) {
    const char *used = tmh_credentials_said(file, sent);
    const char *hint = "";
    if (strcmp(code, "GatedRepo") == 0)
        hint = "; its owners grant access on its page on the hub";
    else if (strcmp(code, "RepoNotFound") == 0)
        hint = "; there is no such model, or it is private";
    tmh_fail(error, TENMAP_ERR_IO,
             "%s: no permission: the server answered %d%s%s to a request %s%s",
             tmh_show(file->given).text, status, *code ? " " : "", code, used, hint);
    error->os_error = EACCES;
    return tmh_remedy(error, TENMAP_REMEDY_CREDENTIALS, TENMAP_ERR_IO);
}

static tenmap_status fail_missing(const tmh_file *file, int status, const char *code,
                                  tenmap_error *error) {
    const char *what = "there is no such file on the server";
    if (strcmp(code, "RevisionNotFound") == 0)
        what = "the hub has no such revision of the model";
    else if (strcmp(code, "RepoNotFound") == 0)
        what = "the hub has no such model, or it is private";
    else if (strcmp(code, "NoSuchBucket") == 0)
        what = "there is no such bucket";
    return tmh_fail(error, TENMAP_ERR_NOT_FOUND, "%s: %s (it answered %d)",
                    tmh_show(file->given).text, what, status);
}

tenmap_status tmh_fail_status(const tmh_file *file, const tmh_request *request, bool sent,
                              tenmap_error *error) {
    const tmh_answer *a = &request->answer;
    char code[48];
    error_code(request, code, sizeof code);
    if (a->status == 401 || a->status == 403)
        return fail_permission(file, a->status, code, sent, error);
    if (a->status == 404 || a->status == 410)
        return fail_missing(file, a->status, code, error);
    if (a->status == 412 || a->status == 416)
        return tmh_fail_wrong(file, request, TMH_CHANGED, error);
    if (a->status == 429)
        return tmh_remedy(
            error, TENMAP_REMEDY_TRY_AGAIN,
            tmh_fail(error, TENMAP_ERR_IO,
                     "%s: the server gets too many requests and asks to wait (it answered 429, "
                     "with %llu seconds): try again later, or with fewer connections",
                     tmh_show(file->given).text, (ull)(a->has_retry_after ? a->retry_after : 0)));
    if (a->status == 200)
        return tmh_fail_wrong(file, request, TMH_WHOLE, error);
    bool own = a->status >= 500;
    return tmh_remedy(error, own ? TENMAP_REMEDY_TRY_AGAIN : TENMAP_REMEDY_NONE,
                      tmh_fail(error, TENMAP_ERR_IO,
                               "%s: the server answered %d%s%s, which is a failure%s",
                               tmh_show(file->given).text, a->status, *code ? " " : "", code,
                               own ? " of its own: try again later" : ""));
}

/* For a header line that is too long curl reports that memory ran out, which is rarely true. */
static bool fail_head(const tmh_file *file, const tmh_request *request, tenmap_error *error) {
    tmh_shown shown = tmh_show(file->given);
    if (request->long_head)
        tmh_fail(error, TENMAP_ERR_IO,
                 "%s: the header lines of the server's answer have more than %d bytes, which no "
                 "file server should send: ask those who run it",
                 shown.text, (int)TMH_LONGEST_HEAD);
    else if (request->code == TMH_CURLE_OUT_OF_MEMORY && !request->headed)
        tmh_fail(error, TENMAP_ERR_IO,
                 "%s: a header line of the server's answer is longer than 100 KB, or memory ran "
                 "out; is this an HTTP server?",
                 shown.text);
    return error->status != TENMAP_OK;
}

tenmap_status tmh_fail_transfer(const tmh_file *file, const tmh_request *request,
                                tenmap_error *error) {
    static const struct {
        int code;
        int os_error;
        const char *text;
    } known[] = {
        {TMH_CURLE_COULDNT_RESOLVE_HOST, 0, "the host name cannot be resolved"},
        {TMH_CURLE_COULDNT_RESOLVE_PROXY, 0, "the proxy's host name cannot be resolved"},
        {TMH_CURLE_COULDNT_CONNECT, ECONNREFUSED, "cannot connect to the server"},
        {TMH_CURLE_OPERATION_TIMEDOUT, ETIMEDOUT, "the server was silent, or slow, for too long"},
        {TMH_CURLE_PARTIAL_FILE, ECONNRESET, "the connection ended in the middle of an answer"},
        {TMH_CURLE_RECV_ERROR, ECONNRESET, "the connection broke"},
        {TMH_CURLE_SEND_ERROR, ECONNRESET, "the connection broke"},
        {TMH_CURLE_UNSUPPORTED_PROTOCOL, 0, "the server's answer is not HTTP"},
        {TMH_CURLE_WEIRD_SERVER_REPLY, 0, "the server's answer cannot be understood"},
        {TMH_CURLE_GOT_NOTHING, ECONNRESET, "the server closed the connection without an answer"},
        {TMH_CURLE_PEER_FAILED_VERIFICATION, 0, "the server's certificate is not trusted"},
        {TMH_CURLE_SSL_CACERT_BADFILE, 0, "the file of trusted certificates cannot be read"},
        {TMH_CURLE_SSL_CONNECT_ERROR, 0, "cannot make a TLS connection"},
        {TMH_CURLE_OK, ECONNRESET, "the answer ended too early"},
    };
    const char *text = "the request failed";
    int os_error = 0;
    memset(error, 0, sizeof *error);
    if (fail_head(file, request, error))
        return error->status;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].code == request->code) {
            text = known[i].text;
            os_error = known[i].os_error;
        }
    if (request->code == TMH_CURLE_OK)
        tmh_fail(error, TENMAP_ERR_IO, "%s: %s", tmh_show(file->given).text, text);
    else
        tmh_fail(error, TENMAP_ERR_IO, "%s: %s (%s)", tmh_show(file->given).text, text,
                 request->problem);
    error->os_error = os_error;
    return TENMAP_ERR_IO;
}
