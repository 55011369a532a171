/*
 * launchers.c - the doctor's look at cluster launchers: which are installed, and whether one of them started us.
 */
#include "launcher/cluster/launched.h"
#include "tools/doctor/examine.h"

#include <stdlib.h>

static const char *
or_unknown(const char *value)
{
    return value != NULL && value[0] != '\0' ? value : "?";
}

/* Where we are ourselves: started by a launcher, in an allocation of a scheduler. */
static void
examine_surroundings(struct examination *examination)
{
    struct findings *findings = examination->findings;
    struct launched launched;
    struct error error;
    if (getenv("SLURM_JOB_ID") != NULL)
        findings_ok(findings, "Slurm", "inside allocation %s: %s nodes (%s), %s tasks", getenv("SLURM_JOB_ID"),
                    or_unknown(getenv("SLURM_JOB_NUM_NODES")), or_unknown(getenv("SLURM_JOB_NODELIST")),
                    or_unknown(getenv("SLURM_NTASKS")));
    if (!launched_look(&(struct launch_request){.node_rank = -1}, &launched, &error))
        findings_say_error(findings, FINDING_PROBLEM, "launcher", error.text);
    else if (launched.by != LAUNCHED_ALONE)
        findings_ok(findings, "launcher", "this process is one of several, by %s", launched.variables);
}

void
examine_launchers(struct examination *examination)
{
    static const char *const names[] = {"mpirun", "prterun", "srun"};
    bool any = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        struct program found;
        struct error error;
        if (!program_find(names[i], getenv("PATH"), &found, &error))
            continue;
        findings_ok(examination->findings, names[i], "%s", found.path);
        program_free(&found);
        any = true;
    }
    if (!any)
        findings_ok(examination->findings, "launchers",
                    "no mpirun, prterun or srun in PATH; jobs on this machine need none");
    examine_surroundings(examination);
}
