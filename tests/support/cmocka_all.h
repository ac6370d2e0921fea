/* cmocka.h, after the headers that it requires. */
#ifndef TENMAP_TESTS_CMOCKA_ALL_H
#define TENMAP_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
