/* flock, for the tests that play another program; see posix.h. */
#include "../posix.h"
