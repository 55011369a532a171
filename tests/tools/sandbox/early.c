/*
 * early.c - a library that writes a file when it is loaded, which is before libddprun-files.so has had its turn if both
 * are preloaded in the one order, and after it in the other.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void __attribute__((constructor)) write_early(void)
{
    const char *path = getenv("EARLY_FILE");
    int fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (fd >= 0) {
        (void)!write(fd, "early\n", 6);
        close(fd);
    }
}
