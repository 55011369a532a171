/* message.c - see message.h. */
#include "base/message.h"

#include "base/clock.h"
#include "base/printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_LINE = 4096 };

static _Atomic int target = STDERR_FILENO;

void
message_to(int fd)
{
    target = fd;
}

int
message_target(void)
{
    return target;
}

/* A message that cannot be written has nowhere else to go. */
static void
put(const char *text, size_t count)
{
    while (count > 0) {
        ssize_t written = write(target, text, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        text += written;
        count -= (size_t)written;
    }
}

void
message_text(const char *text)
{
    put(text, strlen(text));
}

/* Returns what stands after "ddprun: ", in line[LONGEST_LINE]; NULL: it cannot be formatted. */
static const char *
put_line(char line[LONGEST_LINE], const char *format, va_list args)
{
    static const char prefix[] = "ddprun: ";
    size_t used = sizeof(prefix) - 1;
    memcpy(line, prefix, used);
    if (vsnprintf(line + used, LONGEST_LINE - used - 1, format, args) < 0)
        return NULL;
    printable_make(line + used, "\n\t");
    size_t length = used + strlen(line + used);
    line[length] = '\n';
    put(line, length + 1);
    line[length] = '\0';
    return line + used;
}

void
message_line(const char *format, ...)
{
    char line[LONGEST_LINE];
    va_list args;
    va_start(args, format);
    (void)put_line(line, format, args);
    va_end(args);
}

/* ---- warnings ---- */

static struct warnings own_warnings;
static struct warnings *_Atomic warnings_list = &own_warnings;
static const _Atomic uint64_t *_Atomic warnings_step;

void
message_warnings_to(struct warnings *list, const _Atomic uint64_t *step)
{
    warnings_step = step;
    warnings_list = list;
}

const struct warnings *
message_warnings(void)
{
    return &own_warnings;
}

/* Two threads may each keep the first of a key; readers then find it twice. */
static void
keep(struct warnings *list, const char *key, const char *text)
{
    const _Atomic uint64_t *step = warnings_step;
    for (int i = 0; i < WARNINGS_AT_MOST; ++i) {
        if (atomic_load(&list->all[i].count) > 0 && strcmp(list->all[i].key, key) == 0) {
            atomic_fetch_add(&list->all[i].count, 1);
            return;
        }
    }
    uint32_t place = atomic_load(&list->claimed);
    if (place >= WARNINGS_AT_MOST || (place = atomic_fetch_add(&list->claimed, 1)) >= WARNINGS_AT_MOST)
        return;
    struct warning *warning = &list->all[place];
    warning->step = step != NULL ? atomic_load(step) : 0;
    warning->at_ns = (uint64_t)clock_now_ns();
    snprintf(warning->key, sizeof(warning->key), "%s", key);
    snprintf(warning->text, sizeof(warning->text), "%s", text);
    printable_make(warning->text, "");
    atomic_store(&warning->count, 1);
}

void
message_warning(const char *key, const char *format, ...)
{
    char line[LONGEST_LINE];
    va_list args;
    va_start(args, format);
    const char *text = put_line(line, format, args);
    va_end(args);
    if (text != NULL)
        keep(warnings_list, key, text);
}
