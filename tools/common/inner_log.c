/* inner_log.c - see inner_run.h. */
#include "tools/common/inner_run.h"

#include "base/clock.h"
#include "base/message.h"
#include "tools/common/owned.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <sys/ioctl.h>

void
inner_log_read(const char *path, char *message, size_t size)
{
    static const char begin[] = "ddprun: ";
    FILE *log = fopen(path, "re");
    char line[1024];
    while (log != NULL && message[0] == '\0' && fgets(line, sizeof(line), log) != NULL) {
        if (strncmp(line, begin, strlen(begin)) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(message, size, "%s", line + strlen(begin));
    }
    if (log != NULL)
        fclose(log);
}

void
inner_run_reason(const char *summary, char *reason, size_t room)
{
    struct json_object *root = json_object_from_file(summary);
    const char *said = json_object_get_string(json_object_object_get(root, "reason"));
    snprintf(reason, room, "%s", said != NULL ? said : "");
    json_object_put(root);
}

enum { SHOWN_BYTES = 256 };

/* A line of its own, once a minute. */
static void
show_now_and_then(const char *text)
{
    enum { MINUTE_MS = 60000 };
    static int64_t next_ms;
    int64_t now_ms = clock_now_ms();
    next_ms = next_ms == 0 ? now_ms + MINUTE_MS : next_ms;
    if (now_ms < next_ms)
        return;
    next_ms = now_ms + MINUTE_MS;
    message_line("%s", text);
}

/* Of the line's text, what has room in a row of the terminal: a longer line could not be written over. */
static int
room_in_row(void)
{
    static const int before = sizeof("ddprun: ") - 1;
    struct winsize size;
    const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > before + 1;
    return is_known ? size.ws_col - 1 - before : SHOWN_BYTES;
}

void
inner_run_show(const char *format, ...)
{
    static bool is_shown;
    char text[SHOWN_BYTES] = "";
    va_list args;
    if (format == NULL && !is_shown)
        return;
    if (format != NULL) {
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
    }
    if (!isatty(STDERR_FILENO)) {
        if (format != NULL)
            show_now_and_then(text);
        return;
    }
    is_shown = format != NULL;
    fputs("\r\033[K", stderr);
    if (is_shown)
        fprintf(stderr, "ddprun: %.*s", room_in_row(), text);
    fflush(stderr);
}

enum { LAST_LINES = 10, LAST_BYTES = 8192 };

bool
inner_log_show_end(const char *path)
{
    OWNED_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[LAST_BYTES + 1];
    off_t bytes = lseek(fd, 0, SEEK_END);
    ssize_t got = pread(fd, text, LAST_BYTES, bytes > LAST_BYTES ? bytes - LAST_BYTES : 0);
    if (got <= 0) /* or it is not there */
        return false;
    text[got] = '\0';
    const char *from = text + got;
    for (int lines = 0; from > text; --from) {
        if (from[-1] == '\n' && from < text + got && ++lines == LAST_LINES)
            break;
    }
    fprintf(stderr, "%s%s", from, text[got - 1] == '\n' ? "" : "\n");
    return true;
}
