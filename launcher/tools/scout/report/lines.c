/*
 * lines.c - see lines.h.
 */
#include "launcher/tools/scout/report/lines.h"

#include "launcher/common/xcalloc.h"
#include "launcher/tools/scout/report/insert.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The line of a source file, without its end; false if it cannot be read. */
static bool
read_line(const char *path, int number, char *text, size_t room)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool found = false;
    for (int i = 1; i <= number; ++i)
        found = fgets(text, (int)room, file) != NULL;
    fclose(file);
    text[strcspn(text, "\n")] = '\0';
    return found;
}

/* What stands behind the first & of a call that allocates, or in front of a = : "w", "net->w[i]". */
static bool
pointer_in(const char *line, char *text, size_t room)
{
    const char *call = strstr(line, "alloc"), *equal = strchr(line, '=');
    if (call == NULL)
        call = strstr(line, "Alloc");
    const char *from = call != NULL ? strchr(call, '&') : NULL, *to;
    if (from != NULL) {
        from += 1;
        to = from + strcspn(from, ",;");
    } else if (equal != NULL) {
        for (to = equal; to > line && isspace((unsigned char)to[-1]);)
            --to;
        for (from = to; from > line && !isspace((unsigned char)from[-1]) && from[-1] != '*';)
            --from;
    } else {
        return false;
    }
    while (from < to && isspace((unsigned char)*from))
        ++from;
    if (from >= to || (size_t)(to - from) >= room || to - from > 60)
        return false;
    memcpy(text, from, (size_t)(to - from));
    text[to - from] = '\0';
    return text[0] != '(' && strpbrk(text, "\"'") == NULL;
}

/* Whether the line that allocates does so for several callers: then its pointer has no name there. */
static bool
is_helper(struct sites *sites, const struct scout_log *log, uint32_t site)
{
    struct site_place place, other;
    if (!sites_find(sites, site, &place) || place.file[0] == '\0')
        return false;
    for (uint32_t i = 0; i < log->site_count; ++i)
        if (i != site && sites_find(sites, i, &other) && other.line == place.line &&
            strcmp(other.file, place.file) == 0)
            return true;
    return false;
}

void
lines_pointer(struct sites *sites, const struct scout_log *log, const struct scout_tensor *tensor, char *text,
              size_t room)
{
    char line[512];
    struct site_place place;
    const struct scout_alloc *alloc = &log->allocs[tensor->alloc];
    snprintf(text, room, "pointer");
    if (alloc->name != SCOUT_NONE)
        snprintf(text, room, "%s", scout_log_name(log, alloc->name));
    else
        for (unsigned depth = is_helper(sites, log, alloc->site); depth < 3; ++depth)
            if (sites_find_outer(sites, alloc->site, depth, &place) &&
                read_line(place.file, place.line, line, sizeof(line)) && pointer_in(line, text, room))
                break;
}

/* What no line annotates. */
static void
print_tensor(FILE *out, const struct scout_log *log, const struct scout_tensor *tensor, struct sites *sites)
{
    char pointer[96], site[256];
    uint32_t bytes = scout_type_bytes(tensor->type);
    lines_pointer(sites, log, tensor, pointer, sizeof(pointer));
    fprintf(out, "by hand: %s a%u[%llu:%llu], %llu of %s, `%s`, allocated at %s\n", scout_role_name(tensor->role),
            tensor->alloc, (unsigned long long)tensor->lo, (unsigned long long)tensor->hi,
            (unsigned long long)((tensor->hi - tensor->lo) / (bytes > 0 ? bytes : 4)), scout_type_name(tensor->type),
            pointer, sites_text(sites, log->allocs[tensor->alloc].site, site, sizeof(site)));
}

/* "train.cu:120, the launch of sgd" */
static void
print_place(FILE *out, const struct scout_log *log, uint32_t op, struct sites *sites)
{
    char name[SCOUT_NAME_BYTES];
    struct site_place place;
    (void)sites_find(sites, log->ops[op].site, &place);
    fprintf(out, "%s, %s%s", place.text, log->ops[op].kind == SCOUT_LAUNCH ? "the launch of " : "",
            scout_op_name(log, &log->ops[op], name));
}

static void
print_steps(FILE *out, const struct scout_log *log, const struct scout_finding *finding, const bool *placed,
            struct sites *sites)
{
    for (uint32_t g = 0; g < finding->group_count; ++g) {
        const struct scout_group *group = &finding->groups[g];
        if (placed[g])
            continue;
        fprintf(out, "by hand: %s of group %u, %s ", group->fused ? "DDP_STEP_PARAMETERS" : "DDP_STEP", g,
                group->fused ? "behind" : "before");
        print_place(out, log, group->fused ? group->complete : group->before, sites);
        fputc('\n', out);
    }
}

static void
print_insertion(FILE *out, const struct insertion *insertion)
{
    char *text = xstrdup(insertion->text), *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL)
        fprintf(out, "+ %s\n", line);
    free(text);
}

void
lines_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites)
{
    struct insertions insertions;
    insertions_find(sites, log, finding, &insertions);
    fputs("lines to add:\n", out);
    for (uint32_t i = 0; i < insertions.count; ++i) {
        const struct insertion *here = &insertions.items[i], *last = here - 1;
        if (i == 0 || last->line != here->line || strcmp(last->file, here->file) != 0)
            fprintf(out, "@@ %s, before line %d @@\n", here->file, here->line);
        print_insertion(out, here);
    }
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        if (insertions_wants(&finding->tensors[i]) && !insertions.placed[i])
            print_tensor(out, log, &finding->tensors[i], sites);
    print_steps(out, log, finding, insertions.placed_steps, sites);
    if (insertions.open_copy != SCOUT_NONE) {
        fputs("by hand: DDP_SHARD, of the records that come by ", out);
        print_place(out, log, insertions.open_copy, sites);
        fputc('\n', out);
    }
    insertions_free(&insertions);
}
