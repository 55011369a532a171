/* say.c - see unannotated.h: one sentence for each kind of finding. */
#include "tools/check/unannotated/unannotated.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"

#include <inttypes.h>

typedef void (*say_fn)(FILE *out, const struct unannotated_finding *finding);

static void
say_after(FILE *out, const struct unannotated_finding *finding)
{
    fprintf(out,
            "not compared: memory without annotation that %s (argument %" PRIu32 ") updated several times after the "
            "last DDP_STEP: a training needs annotations and DDP_STEP there, too\n",
            finding->text, finding->argument + 1);
}

static void
say_read_of_share(FILE *out, const struct unannotated_finding *finding)
{
    fprintf(out,
            "not compared: values that the host reads at %s: the loss or count of a rank's share needs DDP_MEAN or "
            "DDP_REDUCE\n",
            finding->text);
}

static void
say_read_of_batches(FILE *out, const struct unannotated_finding *finding)
{
    fprintf(out,
            "not compared: values that the host reads at %s: the loss or count of a rank's own batches needs DDP_MEAN "
            "or DDP_REDUCE\n",
            finding->text);
}

static void
say_read_of_gradients(FILE *out, const struct unannotated_finding *finding)
{
    fprintf(out,
            "not compared: what the host reads, at %s, of gradients that DDP_STEP has not averaged: if it clips, "
            "scales or skips updates in other steps, call DDP_STEP before it\n",
            finding->text);
}

static void
say_missing(FILE *out, const struct unannotated_finding *finding)
{
    fputs(finding->text, out);
}

static void
say_parameter(FILE *out, const struct unannotated_finding *finding)
{
    fprintf(out,
            "missing: DDP_PARAMETER for memory that `%s` updates (argument %" PRIu32 ", %" PRIu64 " elements or more) "
            "as it updates annotated parameters: fewer elements of parameters than of gradients are annotated\n",
            finding->text, finding->argument + 1, finding->elements);
}

static void
say_not_searched(FILE *out, const struct unannotated_finding *finding)
{
    fprintf(out, "not exercised: the search for missing annotations: %s\n", finding->text);
}

static void
say_average(FILE *out, const struct unannotated_finding *finding)
{
    fprintf(out,
            "not compared: %" PRIu64 " elements that `%s` writes, which no other operation of a step reads: a moving "
            "average of gradients or parameters, which DDP_STATE would compare\n",
            finding->elements, finding->text);
}

static void
say_statistics(FILE *out, const struct unannotated_finding *finding)
{
    fprintf(out,
            "not compared: %" PRIu64 " elements that `%s` writes, which no other operation of a step reads: results of "
            "the rank's share\n",
            finding->elements, finding->text);
}

static const say_fn sentences[UNANNOTATED_KINDS] = {
    [UNANNOTATED_AFTER] = say_after,
    [UNANNOTATED_READ_OF_SHARE] = say_read_of_share,
    [UNANNOTATED_READ_OF_BATCHES] = say_read_of_batches,
    [UNANNOTATED_READ_OF_GRADIENTS] = say_read_of_gradients,
    [UNANNOTATED_MISSING] = say_missing,
    [UNANNOTATED_PARAMETER] = say_parameter,
    [UNANNOTATED_NOT_SEARCHED] = say_not_searched,
    [UNANNOTATED_AVERAGE] = say_average,
    [UNANNOTATED_STATISTICS] = say_statistics,
};

/* Scout's lines name the allocation, and are about all parameters. */
static bool
is_said_by_scout(const struct unannotated_findings *findings, enum unannotated_kind kind)
{
    return kind == UNANNOTATED_PARAMETER &&
           ANY(finding, findings->list, findings->count,
               finding->kind == UNANNOTATED_MISSING && strstr(finding->text, "DDP_PARAMETER") != NULL);
}

char *
unannotated_find(const struct unannotated_search *search, const struct check_evidence *evidence,
                 const struct check_facts *facts)
{
    struct unannotated_findings findings = {0};
    char *lines = NULL;
    size_t bytes;
    FILE *out = open_memstream(&lines, &bytes);
    unannotated_observe(evidence, facts, &findings);
    if (search->can_run)
        unannotated_scout(search, evidence, facts, &findings);
    for (int kind = 0; kind < UNANNOTATED_KINDS; ++kind) {
        if (is_said_by_scout(&findings, (enum unannotated_kind)kind))
            continue;
        FOR_EACH(finding, findings.list, findings.count)
            if ((int)finding->kind == kind)
                sentences[kind](out, finding);
    }
    fclose(out);
    unannotated_free(&findings);
    return lines;
}
