/*
 * lines.c - see lines.h.
 */
#include "launcher/tools/scout/report/lines.h"

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

static const char *
type_word(uint32_t type)
{
    static const char *const words[] = {"DDP_FLOAT32", "DDP_FLOAT32",  "DDP_FLOAT64",
                                        "DDP_FLOAT16", "DDP_BFLOAT16", "DDP_INT32"};
    return type < sizeof(words) / sizeof(words[0]) ? words[type] : words[0];
}

static const char *
macro_of(enum scout_role role)
{
    switch (role) {
    case ROLE_PARAMETER:
        return "DDP_PARAMETER";
    case ROLE_GRADIENT:
        return "DDP_GRADIENT";
    case ROLE_OPTIMIZER_STATE:
    case ROLE_AVERAGE:
        return "DDP_STATE";
    default:
        return NULL;
    }
}

static void
print_tensor(FILE *out, const struct scout_log *log, const struct scout_tensor *tensor, struct sites *sites)
{
    char pointer[96];
    struct site_place place;
    uint32_t bytes = scout_type_bytes(tensor->type);
    lines_pointer(sites, log, tensor, pointer, sizeof(pointer));
    (void)sites_find(sites, log->allocs[tensor->alloc].site, &place);
    fprintf(out, "+ %s(", macro_of(tensor->role));
    if (tensor->lo > 0)
        fprintf(out, "(char *)%s + %llu", pointer, (unsigned long long)tensor->lo);
    else
        fputs(pointer, out);
    fprintf(out, ", %llu, %s); /* a%u, allocated at %s%s */\n",
            (unsigned long long)((tensor->hi - tensor->lo) / (bytes > 0 ? bytes : 4)), type_word(tensor->type),
            tensor->alloc, place.text, tensor->guessed ? "; the type is a guess" : "");
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
print_steps(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites)
{
    for (uint32_t g = 0; g < finding->group_count; ++g) {
        const struct scout_group *group = &finding->groups[g];
        fprintf(out, "@@ %s ", group->fused ? "behind" : "before");
        print_place(out, log, group->fused ? group->complete : group->before, sites);
        fputs(" @@\n", out);
        if (group->fused)
            fprintf(out, "+ /* the change of %u parameters is to be averaged here: docs/recipes.md */\n",
                    group->parameters);
        else if (finding->group_count == 1)
            fputs("+ DDP_STEP(stream);\n", out);
        else
            fprintf(out, "+ DDP_STEP_GROUP(%u, stream);\n", g);
    }
}

void
lines_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites)
{
    static const enum scout_role roles[] = {ROLE_PARAMETER, ROLE_OPTIMIZER_STATE, ROLE_AVERAGE, ROLE_GRADIENT};
    uint32_t group = 0;
    fputs("lines to add:\n@@ before the first step: ", out);
    print_place(out, log, finding->first, sites);
    fputs(" @@\n", out);
    for (size_t r = 0; r < sizeof(roles) / sizeof(roles[0]); ++r)
        for (uint32_t g = 0; g < (roles[r] == ROLE_GRADIENT ? finding->group_count : 1); ++g)
            for (uint32_t i = 0; i < finding->tensor_count; ++i) {
                const struct scout_tensor *tensor = &finding->tensors[i];
                if (tensor->role != roles[r] || (roles[r] == ROLE_GRADIENT && tensor->group != g))
                    continue;
                if (roles[r] == ROLE_GRADIENT && g != group)
                    fprintf(out, "+ DDP_GRADIENT_GROUP(%u);\n", group = g);
                print_tensor(out, log, tensor, sites);
            }
    print_steps(out, log, finding, sites);
}
