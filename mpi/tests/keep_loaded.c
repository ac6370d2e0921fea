/*
 * For sanitizers: libraries that MPI loads stay loaded until the end, so that reports can name the
 * leaking function.
 */
int dlclose(void *library);

int dlclose(void *library) {
    (void)library;
    return 0;
}
