/* The weights that tests build: one function for each case, and those that must be refused. */
#ifndef TENMAP_TESTS_QUANTIZED_SCHEMES_H
#define TENMAP_TESTS_QUANTIZED_SCHEMES_H

#include "quantized_weight.h"

typedef void make_weight(stored_weight *w);

typedef struct broken_case {
    make_weight *make;
    const char *fragment; /* of the error */
    bool missing;         /* a part is, which a partial open takes */
} broken_case;

extern make_weight *const quantized_cases[];
extern const size_t quantized_case_count;
extern const broken_case broken_cases[];
extern const size_t broken_case_count;
extern const broken_case late_cases[]; /* that open, and are refused when they are read */
extern const size_t late_case_count;

#endif
