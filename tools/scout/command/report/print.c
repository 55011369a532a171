/*
 * print.c - see plan.h.
 */
#include "tools/scout/command/report/proofs.h"

#include "tools/scout/command/report/insert.h"
#include "tools/scout/command/report/site.h"

#include <inttypes.h>
#include <string.h>

static const enum scout_role order[] = {ROLE_PARAMETER, ROLE_GRADIENT,   ROLE_OPTIMIZER_STATE, ROLE_AVERAGE,
                                        ROLE_CARRIED,   ROLE_STATISTICS, ROLE_RANDOM};

static void
print_tensor(FILE *out, const struct scout_log *log, const struct scout_finding *finding,
             const struct scout_tensor *tensor, struct sites *sites)
{
    char memory[64], pair[64] = "", name[SCOUT_NAME_BYTES], type[16];
    char place[256];
    uint32_t bytes = scout_type_bytes(tensor->type);
    snprintf(type, sizeof(type), "%s%s", scout_type_name(tensor->type), tensor->guessed ? "?" : "");
    if (tensor->pair != PAIR_NONE)
        (void)scout_tensor_place(&finding->tensors[tensor->pair], pair);
    (void)sites_text(sites, log->allocs[tensor->alloc].site, place, sizeof(place));
    fprintf(out, "  %-16s %-9s %10" PRIu64 " %12" PRIu64 "  %-22s %-32s %-20s %s%s\n", scout_role_name(tensor->role),
            type, bytes > 0 ? (tensor->hi - tensor->lo) / bytes : 0, tensor->hi - tensor->lo,
            scout_tensor_place(tensor, memory), place, scout_op_name(log, &log->ops[tensor->writer], name),
            tensor->fused     ? "no gradient of its own"
            : pair[0] != '\0' ? "with "
                              : "",
            tensor->fused ? "" : pair);
}

static void
print_rows(FILE *out, const struct scout_log *log, const struct scout_finding *finding, enum scout_role role,
           struct sites *sites)
{
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        if (finding->tensors[i].role == role)
            print_tensor(out, log, finding, &finding->tensors[i], sites);
}

static void
print_table(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites)
{
    fprintf(out, "  %-16s %-9s %10s %12s  %-22s %-32s %-20s %s\n", "role", "type", "elements", "bytes", "memory",
            "allocated at", "written by", "pair");
    for (size_t r = 0; r < sizeof(order) / sizeof(order[0]); ++r)
        print_rows(out, log, finding, order[r], sites);
}

/* What may be a parameter, and the question that decides it. */
static void
print_suspects(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites)
{
    if (!finding->is_open)
        return;
    fputs("has no gradient, and gradients are computed from it, or the kernel that updates parameters gets it in their "
          "place:\n",
          out);
    print_rows(out, log, finding, ROLE_SUSPECT, sites);
}

static void
print_groups(FILE *out, const struct scout_log *log, const struct scout_finding *finding)
{
    char name[SCOUT_NAME_BYTES], last[SCOUT_NAME_BYTES];
    for (uint32_t g = 0; g < finding->group_count; ++g) {
        const struct scout_group *group = &finding->groups[g];
        bool border = group->before >= finding->first + finding->period;
        fprintf(out, "group %u: %u %s, complete after operation %u (%s)", g,
                group->fused ? group->parameters : group->gradients, group->fused ? "parameters" : "gradients",
                group->complete - finding->first, scout_op_name(log, &log->ops[group->complete], last));
        fprintf(out, ", first read by %s\n",
                border ? "the next step" : scout_op_name(log, &log->ops[group->before], name));
    }
}

static size_t
folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) : 0;
}

/* Files of one folder that are read, as a folder of images: in one line, at the first of them. False: they are few. */
static bool
print_folder(FILE *out, const struct scout_log *log, uint32_t number)
{
    enum { MANY = 4 };
    const char *path = log->files[number].path;
    size_t length = folder_length(path);
    uint64_t bytes = 0;
    uint32_t count = 0, first = number;
    for (uint32_t i = log->file_count; i-- > 0;) {
        const struct scout_file *file = &log->files[i];
        if (file->writes || folder_length(file->path) != length || strncmp(file->path, path, length) != 0)
            continue;
        bytes += file->bytes;
        count += 1;
        first = i;
    }
    if (count < MANY)
        return false;
    if (first == number)
        fprintf(out, "reads %" PRIu32 " files in %.*s, %" PRIu64 " bytes\n", count, (int)length, path, bytes);
    return true;
}

/* What the host did: files, and calls that make each run another one. */
static void
print_host(FILE *out, const struct scout_log *log, struct sites *sites)
{
    for (uint32_t i = 0; i < log->file_count; ++i) {
        if (log->files[i].writes)
            fprintf(out, "writes %s\n", log->files[i].path);
        else if (!print_folder(out, log, i))
            fprintf(out, "reads %s, %" PRIu64 " bytes\n", log->files[i].path, log->files[i].bytes);
    }
    for (uint32_t i = 0; i < log->clock_count; ++i) {
        struct site_place place;
        bool again = false;
        for (uint32_t k = 0; k < i; ++k)
            again = again || (log->clocks[k].name == log->clocks[i].name && log->clocks[k].site == log->clocks[i].site);
        if (again)
            continue;
        (void)sites_find(sites, log->clocks[i].site, &place);
        fprintf(out, "calls %s at %s: what is computed from it differs between ranks and runs\n",
                scout_log_name(log, log->clocks[i].name), place.text);
    }
}

void
scout_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding)
{
    char name[SCOUT_NAME_BYTES];
    struct sites *sites = sites_open(log);
    fprintf(out, "a step is %" PRIu32 " operations; it begins with %s; %" PRIu64 " bytes stay from step to step\n",
            finding->period, scout_op_name(log, &log->ops[finding->first], name), finding->live_bytes);
    print_table(out, log, finding, sites);
    print_suspects(out, log, finding, sites);
    print_groups(out, log, finding);
    fprintf(out,
            "proof (a): passed: with the gradients cut out (%" PRIu64 " ways) no way leads from data to a parameter\n",
            finding->paths_cut);
    for (uint32_t i = 0; i < finding->note_count; ++i)
        fprintf(out, "note: %s\n", finding->notes[i]);
    print_host(out, log, sites);
    if (log->annotation_count > 0)
        annotated_print(out, log, finding);
    else if (finding->found)
        lines_print(out, log, finding, sites);
    sites_close(sites);
}
