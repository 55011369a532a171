/*
 * readings.c - where the program has read the date or random bytes: what the library of the sandbox has noted in this
 * rank's folder (tools/sandbox/files.h) becomes rows. course.c calls it once, when the run ends.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/direct.h"
#include "tools/sandbox/files.h"

enum { READINGS_AT_MOST = 64 };

/* Opens the file of readings; NULL: there is none. */
static FILE *
open_readings(void)
{
    char path[PATH_MAX];
    const char *folder = getenv(FILES_ENV_DIR);
    snprintf(path, sizeof(path), "%s/" FILES_READINGS, folder != NULL ? folder : "");
    int fd = open_direct(path, O_RDONLY | O_CLOEXEC, 0);
    return fd >= 0 ? fdopen(fd, "r") : NULL;
}

void
readings_note(uint32_t step)
{
    OWNED char *line = NULL;
    size_t room = 0;
    FILE *file = open_readings();
    if (file == NULL)
        return;
    for (int i = 0; i < READINGS_AT_MOST && getline(&line, &room, file) > 0; ++i) {
        char *text = NULL;
        struct check_row row = {.kind = CHECK_ROW_READING, .step = step, .value = strtoull(line, &text, 16)};
        snprintf(row.text, sizeof(row.text), "%s", text);
        row.text[strcspn(row.text, "\n")] = '\0';
        values_row(&row);
    }
    fclose(file);
}
