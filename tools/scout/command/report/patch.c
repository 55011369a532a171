/* patch.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

#include <sys/stat.h>

enum { CONTEXT = 3 };

static const char mark[] = "\xEF\xBB\xBF";

/* One line of the source, as it is, from `at` on. */
static void
put_line(FILE *out, char sign, const char *text, size_t at)
{
    size_t length = strcspn(text + at, "\n");
    bool ends = text[at + length] == '\n';
    fprintf(out, "%c%.*s\n%s", sign, (int)length, text + at, ends ? "" : "\\ No newline at end of file\n");
}

static int
count_lines(const char *text)
{
    int count = 1;
    for (; *text != '\0'; ++text)
        count += *text == '\n';
    return count;
}

/* A line with what is added within it; the first of `items` is in it. Returns how many are. */
static uint32_t
put_changed(FILE *out, const struct insertion *items, uint32_t count, const char *text, size_t at)
{
    size_t from = at;
    uint32_t i = 0;
    put_line(out, '-', text, at);
    fputc('+', out);
    for (; i < count && items[i].line == items[0].line; ++i) {
        size_t to = at + items[i].within - 1;
        fprintf(out, "%.*s%s", (int)(to - from), text + from, items[i].text);
        from = to;
    }
    size_t rest = strcspn(text + from, "\n");
    fprintf(out, "%.*s\n%s", (int)rest, text + from, text[from + rest] == '\n' ? "" : "\\ No newline at end of file\n");
    return i;
}

/* Prints the inserted lines as lines of a patch; `has_returns`: the file's lines end with CR LF. */
static void
put_insertion(FILE *out, const struct insertion *insertion, const char *begin, bool has_returns)
{
    OWNED char *text = xstrdup(insertion->text);
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        fprintf(out, "+%s%s%s%s\n", begin, insertion->indent, line, has_returns ? "\r" : "");
        begin = "";
    }
}

/* The insertions of one file that lie near each other. Returns how many; *added_p: lines that were added in front. */
static uint32_t
put_hunk(FILE *out, const struct source *source, const struct insertion *items, uint32_t count, int *added_p)
{
    const char *text = source->text;
    int lines = count_lines(text) - (text[strlen(text) - 1] == '\n'), added = 0;
    uint32_t near = 0, next = 0;
    do
        added += items[near].within > 0 ? 0 : count_lines(items[near].text);
    while (++near < count && items[near].line - items[near - 1].line <= 2 * CONTEXT);
    int first = items[0].line > CONTEXT ? items[0].line - CONTEXT : 1,
        last = items[near - 1].line + CONTEXT - (items[near - 1].within == 0);
    last = last < lines ? last : lines;
    size_t at = source_place(source, first, 1), length = strcspn(text + at, "\n");
    bool has_returns = length > 0 && text[at + length - 1] == '\r';
    bool is_marked = items[0].line == 1 && strncmp(text, mark, strlen(mark)) == 0;
    fprintf(out, "@@ -%d,%d +%d,%d @@\n", first, last - first + 1, first + *added_p, last - first + 1 + added);
    if (is_marked) { /* the mark stays the first bytes */
        put_line(out, '-', text, at);
        for (; next < near && items[next].line == 1; ++next)
            put_insertion(out, &items[next], next == 0 ? mark : "", has_returns);
        put_line(out, '+', text, strlen(mark));
        at = source_place(source, 2, 1);
    }
    for (int line = first + is_marked; line <= last + 1; ++line) {
        for (; next < near && items[next].line == line && items[next].within == 0; ++next)
            put_insertion(out, &items[next], "", has_returns);
        size_t end = at + strcspn(text + at, "\n");
        if (next < near && items[next].line == line)
            next += put_changed(out, &items[next], near - next, text, at);
        else if (line == last && text[end] == '\0' && next < near) /* a line after the last one, which gets an end */
            fprintf(out, "-%s\n\\ No newline at end of file\n+%s\n", text + at, text + at);
        else if (line <= last)
            put_line(out, ' ', text, at);
        at = end + (text[end] == '\n');
    }
    *added_p += added;
    return near;
}

/* "./net.cu" of a file below the current folder: `patch -p0` and `git apply` both take that. Else the path. */
static const char *
name_of(const char *path, char name[], size_t room)
{
    OWNED char *folder = realpath(".", NULL);
    size_t length = folder != NULL ? strlen(folder) : 0;
    bool is_below = length > 1 && strncmp(path, folder, length) == 0 && path[length] == '/';
    snprintf(name, room, "%s%s", is_below ? "." : "", path + (is_below ? length : 0));
    return name;
}

/* Why the lines of a file cannot be a patch; NULL: they can. */
static char *
find_fault(struct sites *sites, const struct source *source, const char *path, const char *name)
{
    const char *object = sites_object(sites, path);
    struct stat built, now;
    if (source == NULL || stat(path, &now) != 0)
        return xasprintf("%s cannot be read", path);
    if (object != NULL && stat(object, &built) == 0 &&
        (now.st_mtim.tv_sec > built.st_mtim.tv_sec ||
         (now.st_mtim.tv_sec == built.st_mtim.tv_sec && now.st_mtim.tv_nsec > built.st_mtim.tv_nsec)))
        return xasprintf("%s has changed since %s was built, so its lines are not those of the program: build it again",
                         path, object);
    if (name[0] == '/')
        return xasprintf("%s is not below the current folder: run ddprun scout in a folder that has all sources", path);
    return NULL;
}

void
patch_put(FILE *out, FILE *summary, const struct insertions *insertions, struct sites *sites, char **fault_p)
{
    struct sources sources = {0};
    *fault_p = NULL;
    for (uint32_t begin = 0, end; begin < insertions->count; begin = end) {
        const struct insertion *items = &insertions->items[begin];
        const struct source *source = sources_open(&sources, items->file);
        char name[512];
        int added = 0;
        char *fault = find_fault(sites, source, items->file, name_of(items->file, name, sizeof(name)));
        for (end = begin; end < insertions->count && strcmp(insertions->items[end].file, items->file) == 0;)
            ++end;
        if (fault != NULL && *fault_p == NULL)
            *fault_p = fault;
        else
            free(fault);
        if (source == NULL)
            continue;
        fprintf(out, "--- %s\n+++ %s\n", name, name);
        for (uint32_t done = 0; done < end - begin;)
            done += put_hunk(out, source, items + done, end - begin - done, &added);
        for (uint32_t i = 0; i < end - begin; ++i)
            added += items[i].within > 0 && strchr("{(", items[i].text[0]) == NULL;
        fprintf(summary, "%s%d in %s", begin > 0 ? ", " : "", added, name[0] == '.' ? name + 2 : name);
    }
    sources_close(&sources);
}
