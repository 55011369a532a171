/* inner_log.c - see inner_run.h. */
#include "tools/common/inner_run.h"

#include "base/clock.h"
#include "base/message.h"
#include "tools/common/owned.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <stdarg.h>

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

/* A line of its own, once a minute. */
static void __attribute__((format(printf, 1, 0))) show_now_and_then(const char *format, va_list args)
{
    enum { MINUTE_MS = 60000 };
    static int64_t next_ms;
    char text[256];
    int64_t now_ms = clock_now_ms();
    next_ms = next_ms == 0 ? now_ms + MINUTE_MS : next_ms;
    if (now_ms < next_ms)
        return;
    next_ms = now_ms + MINUTE_MS;
    vsnprintf(text, sizeof(text), format, args);
    message_line("%s", text);
}

void
inner_run_show(const char *format, ...)
{
    static bool is_shown;
    va_list args;
    if (!isatty(STDERR_FILENO) && format != NULL) {
        va_start(args, format);
        show_now_and_then(format, args);
        va_end(args);
    }
    if (!isatty(STDERR_FILENO) || (format == NULL && !is_shown))
        return;
    is_shown = format != NULL;
    fputs(is_shown ? "\r\033[Kddprun: " : "\r\033[K", stderr);
    va_start(args, format);
    if (is_shown)
        vfprintf(stderr, format, args);
    va_end(args);
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
