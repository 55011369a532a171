/* findings.c - see unannotated.h: the list of findings. */
#include "tools/check/unannotated/unannotated.h"

#include "tools/common/each.h"
#include "tools/common/grown.h"

void
unannotated_add(struct unannotated_findings *findings, const struct unannotated_finding *finding)
{
    *GROWN(findings->list, findings->count) = *finding;
}

void
unannotated_free(struct unannotated_findings *findings)
{
    FOR_EACH(finding, findings->list, findings->count)
        free(finding->text);
    free(findings->list);
    *findings = (struct unannotated_findings){0};
}
