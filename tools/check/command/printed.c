/*
 * printed.c - figures that the program prints: the outputs of one process, of the same once more, of one whose start is
 * perturbed, and of all ranks (session.h).
 */
#include "tools/check/command/session.h"

#include "tools/check/evidence/figures.h"
#include "tools/common/each.h"
#include "tools/common/owned.h"

enum { MOST_BYTES = 1 << 18 }; /* that are read of an output */

/* What a rank of the run of that name has printed, malloc'ed; NULL: its file cannot be read. */
static char *
read_output(const struct check *check, const char *name, int rank)
{
    OWNED char *path = xasprintf("%s/%s.output/rank-%d.out", check->place.folder, name, rank);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NULL;
    char *text = xcalloc(MOST_BYTES + 1, 1);
    text[fread(text, 1, MOST_BYTES, file)] = '\0';
    fclose(file);
    return text;
}

/* Whether the verdict has a line on another DDP_MEAN, which explains what is printed of it. */
static bool
has_other_means(const struct check_verdict *verdict)
{
    return ANY(item, verdict->facts->items, verdict->facts->item_count,
               item->tensor.role == CHECK_MEAN && item->differs);
}

/* Whether the output of the run that is judged is there, and lines of one process are those of the ranks. */
static bool
is_comparable(const struct check *check, const struct check_verdict *verdict)
{
    if (verdict->result != CHECK_EQUAL || has_other_means(verdict))
        return false;
    if (check->in_cluster || check->has_reference)
        return false;
    if (check->evidence.by_plan || check_evidence_takes_turns(&check->evidence))
        return false;
    return !check->is_plain && check->ahead == 1; /* no later run is judged in place of the first */
}

/* Prints the warning that a figure of the program's output is another one on the ranks although the training is
 * equal. */
static void
print_difference(FILE *out, const struct figure_difference *it, int ranks)
{
    char who[32] = "each rank prints it";
    if (it->is_alone)
        snprintf(who, sizeof(who), "rank 0 alone prints it");
    else if (ranks == 2)
        snprintf(who, sizeof(who), "both ranks print it");
    fprintf(out,
            "warning: the training is equal, but %s is %s on %d ranks (%s), and %s in one process, whose line is `%s`; "
            "%u of %u such figures differ\n"
            "what to do: if the figure is the mean of a rank's items, print the mean of DDP_MEAN; if it is a sum or a "
            "count, add up with DDP_REDUCE before it is divided\n",
            it->name, it->ranked, ranks, who, it->one, it->line, it->differing, it->count);
}

/* `again`, `perturbed`: names of runs of one process. False also where an output is missing. */
static bool
find_difference(const struct check *check, const char *again, const char *perturbed,
                struct figure_difference *difference)
{
    const int ranks = check->evidence.ranks;
    OWNED char *one = read_output(check, "one", 0), *repeated = read_output(check, again, 0);
    OWNED char *nearby = read_output(check, perturbed, 0);
    char **texts = xcalloc((size_t)ranks, sizeof(*texts));
    bool has_all = one != NULL && repeated != NULL && nearby != NULL;
    for (int r = 0; r < ranks; ++r) {
        texts[r] = read_output(check, check->ranked_name, r);
        has_all = has_all && texts[r] != NULL;
    }
    const struct figures_runs runs = {one, repeated, nearby, (const char *const *)texts, ranks};
    bool found = has_all && figures_compare(&runs, difference);
    for (int r = 0; r < ranks; ++r)
        free(texts[r]);
    free(texts);
    return found;
}

void
printed_show(FILE *out, const struct check *check, const struct check_verdict *verdict)
{
    struct figure_difference difference;
    if (is_comparable(check, verdict) && !check->floor_waits &&
        find_difference(check, "again-0", "perturbed-0", &difference))
        print_difference(out, &difference, check->evidence.ranks);
}

/* Further runs explain differences, and show none that the first run does not. */
bool
printed_is_open(const struct check *check, const struct check_verdict *verdict)
{
    struct figure_difference difference;
    return is_comparable(check, verdict) && find_difference(check, "one", "one", &difference);
}
