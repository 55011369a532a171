/*
 * report.c - see report.h.
 */
#include "launcher/scout/report/report.h"

#include "base/protocol.h"
#include "launcher/scout/analysis/finding.h"
#include "launcher/scout/report/plan.h"
#include "launcher/scout/report/print.h"

bool
scout_report(FILE *out, const struct scout_log *log, const char *json, struct error *error)
{
    struct scout_finding finding;
    scout_find(log, &finding);
    bool ok = finding.found || error_set(error, DDPRUN_EXIT_FAILURE, "no gradients found: %s", finding.reason);
    if (finding.found)
        scout_print(out, log, &finding);
    if (json != NULL)
        ok = plan_write(json, log, &finding, error) && ok;
    scout_finding_free(&finding);
    return ok;
}
