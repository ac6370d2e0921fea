/* Dates of header lines, in the three forms of RFC 9110, section 5.6.7. */
#include "http.h"

#include <stdio.h>
#include <string.h>

typedef struct date {
    char month[4];
    int year, day, hour, minute, second;
} date;

/* Whether the text has this form, up to its end. */
static bool scan(const char *text, const char *format, date *d) {
    int end = -1;
    memset(d, 0, sizeof *d);
    int count =
        sscanf(text, format, &d->day, d->month, &d->year, &d->hour, &d->minute, &d->second, &end);
    return count == 6 && end >= 0 && text[end] == '\0';
}

/* "Sun Nov  6 08:49:37 1994": the month comes before the day, and the year last. */
static bool scan_asctime(const char *text, date *d) {
    int end = -1;
    memset(d, 0, sizeof *d);
    int count = sscanf(text, "%*3[A-Za-z] %3[A-Za-z] %2d %2d:%2d:%2d %4d%n", d->month, &d->day,
                       &d->hour, &d->minute, &d->second, &d->year, &end);
    return count == 6 && end >= 0 && text[end] == '\0';
}

static int month_of(const char *name) {
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (size_t i = 0; i < 12; i++)
        if (memcmp(names + 3 * i, name, 3) == 0)
            return (int)i + 1;
    return 0;
}

/* Days since 1970-01-01 of the proleptic Gregorian calendar. Years begin in March here. */
static int64_t days_since_epoch(int year, int month, int day) {
    int64_t y = month > 2 ? year : year - 1;
    int64_t in_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return 365 * y + y / 4 - y / 100 + y / 400 + in_year - 719468;
}

bool tmh_http_date(const char *text, int64_t *seconds) {
    date d;
    bool short_year = false;
    if (!scan(text, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT%n", &d)) {
        short_year = scan(text, "%*9[A-Za-z], %2d-%3[A-Za-z]-%2d %2d:%2d:%2d GMT%n", &d);
        if (!short_year && !scan_asctime(text, &d))
            return false;
    }
    int month = month_of(d.month);
    if (short_year)
        d.year += d.year < 70 ? 2000 : 1900;
    if (!month || d.year < 1970 || d.day < 1 || d.day > 31 || d.hour < 0 || d.hour > 23 ||
        d.minute < 0 || d.minute > 59 || d.second < 0 || d.second > 60)
        return false;
    *seconds = days_since_epoch(d.year, month, d.day) * 86400 + d.hour * INT64_C(3600) +
               d.minute * INT64_C(60) + d.second;
    return true;
}
