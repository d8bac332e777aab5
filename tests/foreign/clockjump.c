/* Shifts the wall clock of a process by the number of seconds in the file CLOCK_OFFSET_FILE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    if (result == 0 && id == CLOCK_REALTIME) {
        const char *path = getenv("CLOCK_OFFSET_FILE");
        FILE *file = path ? fopen(path, "r") : NULL;
        long seconds = 0;
        if (file) {
            if (fscanf(file, "%ld", &seconds) == 1) now->tv_sec += seconds;
            fclose(file);
        }
    }
    return result;
}
