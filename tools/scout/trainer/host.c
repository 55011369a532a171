/*
 * host.c - files that the program uses, and where it reads the date, as libddprun-files.so notes it.
 *
 * What libraries of ddprun and of CUDA read is left out.
 */
#include "tools/scout/trainer/scout.h"

#include "tools/common/direct.h"
#include "tools/sandbox/files.h"
#include "tools/sandbox/notes.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void
host_put_calls(void)
{
    static size_t done;
    const struct host_call *list = NULL;
    size_t count = ddprun_host_calls != NULL ? ddprun_host_calls(&list) : 0;
    for (; done < count; ++done) {
        const struct host_call *call = &list[done];
        if (!names_is_programs(call->stack, call->depth))
            continue;
        struct scout_file file = {
            .path = (char *)call->text, .writes = call->kind == CALL_WRITES, .bytes = call->bytes};
        (void)scout_writer_put(&scout_state.log, SCOUT_FILE, &file);
    }
}

void
host_note_readings(void)
{
    char path[PATH_MAX], *text = scout_state.progress->readings;
    const char *folder = getenv(FILES_ENV_DIR);
    snprintf(path, sizeof(path), "%s/" FILES_READINGS, folder != NULL ? folder : "");
    int fd = open_direct(path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof(scout_state.progress->readings) - 1) : 0;
    text[length > 0 ? length : 0] = '\0';
    char *last = strrchr(text, '\n'); /* a line that is cut is left out */
    if (last != NULL)
        last[0] = '\0';
    if (fd >= 0)
        close(fd);
}
