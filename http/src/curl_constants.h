/*
 * The numbers of libcurl's binary interface that this library uses, so that building it does not
 * need curl's headers. libcurl never changes them within one soname. The test http_find_curl
 * compares each of them with curl/curl.h.
 */
#ifndef TENMAP_HTTP_CURL_CONSTANTS_H
#define TENMAP_HTTP_CURL_CONSTANTS_H

/* X(NAME, VALUE): NAME as in curl/curl.h. The enumerators below are called TMH_NAME. */
#define TMH_CURL_CONSTANTS(X)                                                                      \
    X(CURLE_OK, 0)                                                                                 \
    X(CURLE_UNSUPPORTED_PROTOCOL, 1)                                                               \
    X(CURLE_COULDNT_RESOLVE_PROXY, 5)                                                              \
    X(CURLE_COULDNT_RESOLVE_HOST, 6)                                                               \
    X(CURLE_COULDNT_CONNECT, 7)                                                                    \
    X(CURLE_WEIRD_SERVER_REPLY, 8)                                                                 \
    X(CURLE_HTTP2, 16)                                                                             \
    X(CURLE_PARTIAL_FILE, 18)                                                                      \
    X(CURLE_OUT_OF_MEMORY, 27)                                                                     \
    X(CURLE_OPERATION_TIMEDOUT, 28)                                                                \
    X(CURLE_SSL_CONNECT_ERROR, 35)                                                                 \
    X(CURLE_ABORTED_BY_CALLBACK, 42)                                                               \
    X(CURLE_UNKNOWN_OPTION, 48)                                                                    \
    X(CURLE_GOT_NOTHING, 52)                                                                       \
    X(CURLE_SEND_ERROR, 55)                                                                        \
    X(CURLE_RECV_ERROR, 56)                                                                        \
    X(CURLE_PEER_FAILED_VERIFICATION, 60)                                                          \
    X(CURLE_SSL_CACERT_BADFILE, 77)                                                                \
    X(CURLE_HTTP2_STREAM, 92)                                                                      \
    X(CURLOPT_LOW_SPEED_LIMIT, 19)                                                                 \
    X(CURLOPT_LOW_SPEED_TIME, 20)                                                                  \
    X(CURLOPT_NOPROGRESS, 43)                                                                      \
    X(CURLOPT_NETRC, 51)                                                                           \
    X(CURLOPT_FOLLOWLOCATION, 52)                                                                  \
    X(CURLOPT_SSL_VERIFYPEER, 64)                                                                  \
    X(CURLOPT_MAXCONNECTS, 71)                                                                     \
    X(CURLOPT_SSL_VERIFYHOST, 81)                                                                  \
    X(CURLOPT_HTTP_VERSION, 84)                                                                    \
    X(CURLOPT_BUFFERSIZE, 98)                                                                      \
    X(CURLOPT_NOSIGNAL, 99)                                                                        \
    X(CURLOPT_TIMEOUT_MS, 155)                                                                     \
    X(CURLOPT_CONNECTTIMEOUT_MS, 156)                                                              \
    X(CURLOPT_PROTOCOLS, 181)                                                                      \
    X(CURLOPT_PATH_AS_IS, 234)                                                                     \
    X(CURLOPT_SUPPRESS_CONNECT_HEADERS, 265)                                                       \
    X(CURLOPT_WRITEDATA, 10001)                                                                    \
    X(CURLOPT_URL, 10002)                                                                          \
    X(CURLOPT_ERRORBUFFER, 10010)                                                                  \
    X(CURLOPT_USERAGENT, 10018)                                                                    \
    X(CURLOPT_HTTPHEADER, 10023)                                                                   \
    X(CURLOPT_HEADERDATA, 10029)                                                                   \
    X(CURLOPT_XFERINFODATA, 10057)                                                                 \
    X(CURLOPT_CAINFO, 10065)                                                                       \
    X(CURLOPT_CAPATH, 10097)                                                                       \
    X(CURLOPT_OPENSOCKETDATA, 10164)                                                               \
    X(CURLOPT_CLOSESOCKETDATA, 10209)                                                              \
    X(CURLOPT_PROTOCOLS_STR, 10318)                                                                \
    X(CURLOPT_WRITEFUNCTION, 20011)                                                                \
    X(CURLOPT_HEADERFUNCTION, 20079)                                                               \
    X(CURLOPT_OPENSOCKETFUNCTION, 20163)                                                           \
    X(CURLOPT_CLOSESOCKETFUNCTION, 20208)                                                          \
    X(CURLOPT_XFERINFOFUNCTION, 20219)                                                             \
    X(CURLINFO_CAINFO, 1048637)                                                                    \
    X(CURLINFO_CAPATH, 1048638)                                                                    \
    X(CURLPROTO_HTTP, 1)                                                                           \
    X(CURLPROTO_HTTPS, 2)                                                                          \
    X(CURL_NETRC_IGNORED, 0)                                                                       \
    X(CURL_HTTP_VERSION_2TLS, 4)                                                                   \
    X(CURL_GLOBAL_DEFAULT, 3)                                                                      \
    X(CURL_ERROR_SIZE, 256)                                                                        \
    X(CURL_SOCKET_BAD, -1)                                                                         \
    X(CURLUE_OK, 0)                                                                                \
    X(CURLUPART_URL, 0)                                                                            \
    X(CURLUPART_USER, 2)                                                                           \
    X(CURLUPART_PASSWORD, 3)                                                                       \
    X(CURLUPART_FRAGMENT, 9)                                                                       \
    X(CURLU_NON_SUPPORT_SCHEME, 8)                                                                 \
    X(CURLU_PATH_AS_IS, 16)                                                                        \
    X(CURLU_URLENCODE, 128)                                                                        \
    X(CURLVERSION_FIRST, 0)

#define TMH_ENUMERATOR(name, value) TMH_##name = (value),
enum { TMH_CURL_CONSTANTS(TMH_ENUMERATOR) TMH_CURL_CONSTANTS_END };
#undef TMH_ENUMERATOR

#endif
