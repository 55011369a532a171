/*
 * lines.c - see insert.h.
 */
#include "tools/scout/command/report/insert.h"

#include "launcher/common/xcalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What no line annotates. */
static void
print_tensor(FILE *out, const struct scout_log *log, const struct scout_tensor *tensor,
             const struct insertions *insertions, struct sites *sites)
{
    char site[256], place[64], group[32] = "";
    uint32_t bytes = scout_type_bytes(tensor->type);
    if (insertions->groups > 1 && tensor->group != GROUP_NONE)
        snprintf(group, sizeof(group), " of group %u", insertions->group_of[tensor->group]);
    fprintf(out, "by hand: %s %s%s, %llu of %s, allocated at %s\n", scout_role_name(tensor->role),
            scout_tensor_place(tensor, place), group,
            (unsigned long long)((tensor->hi - tensor->lo) / (bytes > 0 ? bytes : 4)), scout_type_name(tensor->type),
            sites_text(sites, log->allocs[tensor->alloc].site, site, sizeof(site)));
}

/* "train.cu:120, the launch of sgd" */
static void
print_place(FILE *out, const struct scout_log *log, uint32_t op, struct sites *sites)
{
    char name[SCOUT_NAME_BYTES], site[256];
    fprintf(out, "%s, %s%s", sites_text(sites, log->ops[op].site, site, sizeof(site)),
            log->ops[op].kind == SCOUT_LAUNCH ? "the launch of " : "", scout_op_name(log, &log->ops[op], name));
}

static void
print_steps(FILE *out, const struct scout_log *log, const struct scout_finding *finding,
            const struct insertions *insertions, struct sites *sites)
{
    for (uint32_t g = 0; g < finding->group_count; ++g) {
        const struct scout_group *group = &finding->groups[g];
        if (insertions->placed_steps[g])
            continue;
        fprintf(out, "by hand: %s of group %u, %s ", group->fused ? "DDP_STEP_PARAMETERS" : "DDP_STEP",
                insertions->group_of[g], group->fused ? "behind" : "before");
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
    char site[256];
    insertions_find(sites, log, finding, &insertions);
    fputs(insertions.count > 0 ? "lines to add:\n" : "lines to add: none has a place: compile with -g\n", out);
    for (uint32_t i = 0; i < insertions.count; ++i) {
        const struct insertion *here = &insertions.items[i], *last = here - 1;
        if (i == 0 || last->line != here->line || strcmp(last->file, here->file) != 0)
            fprintf(out, "@@ %s, before line %d @@\n", here->file, here->line);
        print_insertion(out, here);
    }
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        if (insertions_wants(finding, &finding->tensors[i]) && !insertions.placed[i])
            print_tensor(out, log, &finding->tensors[i], &insertions, sites);
    print_steps(out, log, finding, &insertions, sites);
    if (insertions.forgotten != SCOUT_NONE)
        fprintf(out, "by hand: DDP_FORGET, before memory is freed that is allocated at %s: its size changes\n",
                sites_text(sites, log->allocs[insertions.forgotten].site, site, sizeof(site)));
    if (insertions.open_copy != SCOUT_NONE) {
        fputs("by hand: DDP_SHARD, of the records that come by ", out);
        print_place(out, log, insertions.open_copy, sites);
        fputs(insertions.has_no_records ? ": no launch shows that these are several\n" : "\n", out);
    }
    insertions_free(&insertions);
}
