/*
 * report_file.c - see report_file.h.
 */
#include "launcher/report/report_file.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool
report_file_check(const char *wanted, struct error *error)
{
    return wanted == NULL || strcmp(wanted, "-") == 0 || whole_file_check(wanted, "--report", error);
}

enum { NAMES_TRIED = 20 };

/* A new file: in a folder that all may write to, one that is there may be a link of another user's. */
static int
open_new(const char *folder, char **path_p)
{
    int fd = -1;
    for (int i = 1; i <= NAMES_TRIED && fd < 0; ++i) {
        char number[16] = "";
        if (i > 1)
            snprintf(number, sizeof(number), ".%d", i);
        free(*path_p);
        *path_p = xasprintf("%s%sddprun-report.%d%s.txt", folder, folder[0] != '\0' ? "/" : "", (int)getpid(), number);
        fd = open(*path_p, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

static int
open_file(struct report_file *file)
{
    if (file->path != NULL)
        return open(file->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file->wanted != NULL) { /* a restart keeps what was reported before it */
        int anew = getenv(DDPRUN_ENV_RESTART) == NULL ? O_TRUNC : 0;
        file->path = xstrdup(file->wanted);
        return open(file->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | anew, 0666);
    }
    const char *folder = getenv("TMPDIR");
    int fd = open_new("", &file->path);
    return fd >= 0 ? fd : open_new(folder != NULL && folder[0] == '/' ? folder : "/tmp", &file->path);
}

const char *
report_file_add(struct report_file *file, const char *text)
{
    int fd = open_file(file);
    bool written = fd >= 0 && dprintf(fd, "%s", text) >= 0;
    int cause = errno;
    if (fd >= 0 && close(fd) != 0 && written) { /* some file systems tell only now that there was no room */
        cause = errno;
        written = false;
    }
    if (fd < 0)
        report_file_free(file);
    errno = cause;
    return written ? file->path : NULL;
}

void
report_file_free(struct report_file *file)
{
    free(file->path);
    file->path = NULL;
}
