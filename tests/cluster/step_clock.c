/*
 * step_clock.c - a library that is preloaded: the clock of the day stands as many seconds off as the file CLOCK_STEP
 * says at that moment. nemesis.sh uses it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int
clock_gettime(clockid_t clock, struct timespec *now)
{
    long result = syscall(SYS_clock_gettime, clock, now);
    const char *file = getenv("CLOCK_STEP");
    int fd = clock == CLOCK_REALTIME && file != NULL ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    char text[16] = "";
    if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
        now->tv_sec += atoi(text);
    if (fd >= 0)
        close(fd);
    return (int)result;
}
