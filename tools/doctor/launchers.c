/*
 * launchers.c - the doctor's look at where we are: started by a launcher, in an allocation of a scheduler.
 */
#include "launcher/cluster/launched.h"
#include "tools/doctor/examine.h"

#include <stdlib.h>

void
examine_launchers(struct examination *examination)
{
    struct findings *findings = examination->findings;
    struct launched launched;
    struct error error;
    const char *job = getenv("SLURM_JOB_ID"), *nodes = getenv("SLURM_JOB_NODELIST");
    if (job != NULL)
        findings_ok(findings, "Slurm", "inside allocation %s, on %s", job, nodes != NULL ? nodes : "?");
    if (!launched_look(&(struct launch_request){.node_rank = -1}, &launched, &error))
        findings_say_error(findings, FINDING_PROBLEM, "launcher", error.text);
    else if (launched.by != LAUNCHED_ALONE)
        findings_ok(findings, "launcher", "this process is one of several, by %s", launched.variables);
}
