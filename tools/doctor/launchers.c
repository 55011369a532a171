/*
 * launchers.c - the doctor's look at cluster launchers: which are installed, and whether one of them started us.
 */
#include "launcher/cluster/launched.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/child.h"
#include "tools/doctor/examine.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_S = 20 };

/* Leaves the first line with a letter in it: launchers put what they have to say between lines of dashes. */
static void
keep_first_words(char *text)
{
    char *line = text;
    for (char *at = line; *at != '\0' && !isalpha((unsigned char)*at); ++at) {
        if (*at == '\n')
            line = at + 1;
    }
    memmove(text, line, strlen(line) + 1);
    text[strcspn(text, "\n")] = '\0';
}

/* Runs `path --version`; the first words of what it says are left in result->text. */
static bool
ask_launcher(const char *path, struct child_result *result)
{
    char *words[] = {xstrdup(path), "--version", NULL};
    child_run(words, environ, LIMIT_S, result);
    free(words[0]);
    keep_first_words(result->text);
    return result->end == CHILD_EXITED && result->code == 0;
}

static bool
examine_launcher(struct examination *examination, const char *name)
{
    struct program found;
    struct error error;
    if (!program_find(name, getenv("PATH"), &found, &error))
        return false;
    struct child_result *result = xcalloc(1, sizeof(*result));
    char end[64];
    bool works = ask_launcher(found.path, result);
    if (works && strpbrk(result->text, "0123456789") != NULL)
        findings_ok(examination->findings, name, "%s (%s)", found.path, result->text);
    else if (works)
        findings_say(examination->findings, FINDING_NOTE, name,
                     "ignore this unless you use this launcher; Open MPI 5 and PRRTE, moved to another folder than "
                     "they were built for, want PRTE_PREFIX and PMIX_PREFIX to name it",
                     "%s --version does not say which: %s", found.path, result->text);
    else
        findings_say(examination->findings, FINDING_NOTE, name,
                     "ignore this unless you use this launcher; otherwise run it by hand and fix what it reports",
                     "%s --version fails: %s", found.path,
                     result->text[0] != '\0' ? result->text : child_end_text(result, end));
    free(result);
    program_free(&found);
    return true;
}

static const char *
or_unknown(const char *value)
{
    return value != NULL && value[0] != '\0' ? value : "?";
}

static void
tell_launched(struct findings *findings, const struct launched *launched)
{
    if (launched->by != LAUNCHED_ALONE)
        findings_ok(findings, "launcher", "this process is one of several, by %s", launched->variables);
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
    if (launched_look(&(struct launch_request){.node_rank = -1}, &launched, &error))
        tell_launched(findings, &launched);
    else
        findings_say_error(findings, FINDING_PROBLEM, "launcher", error.text);
}

void
examine_launchers(struct examination *examination)
{
    static const char *const names[] = {"mpirun", "prterun", "srun"};
    int count = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i)
        count += examine_launcher(examination, names[i]);
    if (count == 0)
        findings_ok(examination->findings, "launchers",
                    "no mpirun, prterun or srun in PATH; jobs on this machine need none");
    examine_surroundings(examination);
}
