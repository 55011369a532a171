/*
 * campaign.c - the fault campaign: starts ddprun again and again, does something terrible to it at a random moment, and
 * holds the end against what is promised.
 *
 * The properties: whatever happens to a rank, to ddprun or to what it prints into, at any moment, the whole job ends in
 * time, with the documented exit code and the culprit named, no rank trains on alone or with a wrong average, and
 * nothing is left behind. Called by run.sh. Every failure is printed with the command that repeats it.
 */
#include "base/printable.h"
#include "tests/faults/kinds.h"
#include "tests/faults/leftovers.h"
#include "tools/common/each.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNS_AT_MOST = 100000, PACE_EVERY = 100, KINDS_AT_MOST = 32, ORDER_BYTES = 4096 };

#define NS 1000000000ll

struct campaign {
    const char *build;
    int runs, first, seed;
    const struct kind *only;
    bool verbose;
    int pause_s; /* how long rank 0 spends in host code; 0: an ordinary campaign */
    char ddprun[400], trainer[400], folder[200];
    struct place place;
    struct pace pace;
    unsigned failures, late;
    unsigned made[KINDS_AT_MOST], hit[KINDS_AT_MOST];
    double *seconds[KINDS_AT_MOST]; /* from fault to end, of the runs that were hit */
};

/* ---- a run ---- */

/* The word of the trainer for what it does there. */
static const char *
habit_of(const struct place *place)
{
    if (place->by_regions)
        return "regions";
    if (place->by_state)
        return "state";
    return place->plan != NULL ? "turns" : "";
}

/* The option of run.sh that leads to the place. */
static const char *
option_of(const struct place *place)
{
    if (place->by_regions)
        return " --turns";
    if (place->by_state)
        return " --by-state";
    return place->plan != NULL ? " --plan" : "";
}

/* The words of the command line, which are cut out of `text`. */
static void
make_order(const struct campaign *campaign, const struct run *run, struct job_order *order, char text[ORDER_BYTES])
{
    const struct place *place = &campaign->place;
    const struct kind *kind = run->kind;
    text[0] = '\0';
    if (place->prefix == NULL)
        printable_append(text, ORDER_BYTES, "%s -n %d", campaign->ddprun, run->ranks);
    else
        printable_append(text, ORDER_BYTES, place->prefix, run->ranks);
    if (place->prefix != NULL)
        printable_append(text, ORDER_BYTES, " %s", campaign->ddprun);
    printable_append(text, ORDER_BYTES, " --device softgpu %s", kind->options != NULL ? kind->options : "");
    if (place->plan != NULL)
        printable_append(text, ORDER_BYTES, " --plan %s", place->plan);
    printable_append(text, ORDER_BYTES, " %s %s %s/" JOB_RECORDS " %d %s ", kind->wrapper ? "sh -c \"$@\";exit sh" : "",
                     campaign->trainer, order->folder, KINDS_STEPS, habit_of(place));
    if (campaign->pause_s > 0)
        printable_append(text, ORDER_BYTES, "pause %d %d", KINDS_STEPS / 2, campaign->pause_s);
    else if (kind->arguments != NULL)
        printable_append(text, ORDER_BYTES, kind->arguments, run->target, run->point);
    const char **at = order->arguments;
    for (char *rest, *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        *at++ = word;
    *at = NULL;
}

/* A machine that has more to do than processors is slower; what is promised holds for one that has not. */
static double
slowness(void)
{
    double load = 0.0;
    if (getloadavg(&load, 1) != 1)
        load = 0.0;
    return 2.0 + load / (double)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Waits until no process of the run is left, and notes when. */
static bool
await_end(struct run *run, struct job *job, double limit_s)
{
    int64_t limit_ns = (int64_t)(limit_s * NS);
    bool ended = job_wait(job, limit_ns);
    while (ended && leftovers_processes(job->mark, 0) > 0 && job_now_ns() < job->end_ns + limit_ns)
        usleep(2000);
    if (run->gone_ns == 0)
        run->gone_ns = job_now_ns();
    return ended;
}

static void
note_pace(struct pace *pace, const struct job *job, int64_t first_ns, int64_t last_ns)
{
    *pace = (struct pace){first_ns - job->begin_ns, (last_ns - first_ns) / (KINDS_STEPS - 1), job->end_ns - last_ns};
}

/* Nothing happens; how long its parts take is noted. */
static void
watch(struct campaign *campaign, struct job *job, double limit_s)
{
    int64_t first_ns = 0, last_ns = 0, until_ns = job_now_ns() + (int64_t)(limit_s * NS);
    while (!job_poll(job, 500) && job_now_ns() < until_ns) {
        if (first_ns == 0 && job->records[0].step >= 1)
            first_ns = job_now_ns();
        if (last_ns == 0 && job->records[0].step >= KINDS_STEPS)
            last_ns = job_now_ns();
    }
    if (first_ns != 0 && last_ns != 0 && job->end_ns != 0 && campaign->pause_s == 0)
        note_pace(&campaign->pace, job, first_ns, last_ns);
}

/* By turns, a rank that calls exit(0) gives its round up: the others make one update of the rest of it, and wait. */
static bool
may_be_wrong(const struct run *run, const struct job *job, uint32_t step)
{
    return job->place->plan != NULL && run->kind->judge == judge_leave && job->exit_code != 0 &&
           step <= job->records[run->target].step + (uint32_t)job->ranks;
}

static void
find_wrong_averages(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    for (int r = 0; r < job->ranks; ++r) {
        if (job->records[r].wrong != 0 && !may_be_wrong(run, job, job->records[r].wrong))
            printable_append(why, KINDS_WHY_BYTES, "WRONG AVERAGE on rank %d in step %u; ", r, job->records[r].wrong);
    }
}

/* The next ddprun clears away what one that was killed has left. */
static void
sweep(const struct campaign *campaign, const struct job *job, char why[KINDS_WHY_BYTES])
{
    char command[2048], text[1024];
    int status = 0;
    for (int i = 0; i <= campaign->place.host_count; ++i) {
        snprintf(command, sizeof(command),
                 "exec env TMPDIR='%s%s' XDG_RUNTIME_DIR='%s/%s' XDG_CONFIG_HOME='%s/config' timeout -k 1 60 "
                 "'%s' -n 1 --device softgpu true </dev/null",
                 i == 0 ? job->folder : campaign->place.hosts[i - 1].tmp, i == 0 ? "/tmp" : "", job->folder,
                 i == 0 ? "runtime" : "none", job->folder, campaign->ddprun);
        status |= system(command);
    }
    leftovers_find(&campaign->place, job->mark, job->folder, false, text, sizeof(text));
    if (status != 0 || text[0] != '\0')
        printable_append(why, KINDS_WHY_BYTES, "the next ddprun (status %d) leaves %s; ", status, text);
}

static void
describe(const struct run *run, char *text, size_t bytes)
{
    if (run->kind == &kind_none)
        snprintf(text, bytes, "%d ranks", run->ranks);
    else if (run->kind->inject == NULL)
        snprintf(text, bytes, "%d ranks, rank %d at its point %u", run->ranks, run->target, run->point);
    else
        snprintf(text, bytes, "%d ranks, rank %d, %.2f ms after %s %u", run->ranks, run->target,
                 (double)run->moment.delay_ns / 1e6, run->moment.step == 0 ? "the start: step" : "step",
                 run->moment.step);
}

static void
tell_failure(const struct campaign *campaign, const struct run *run, const struct job *job, const char *why)
{
    printf("    %s\n", why);
    for (int r = 0; r < run->ranks; ++r)
        printf("    rank %d: process %d, step %u, %s\n", r, job->records[r].pid, job->records[r].step,
               job->records[r].done_ns != 0 ? "done" : "not done");
    printf("    stderr: %.3000s\n", job->text);
    printf("    again: bash tests/faults/run.sh %s%s --seed %d --first %u --runs 1 --only %s\n", campaign->build,
           option_of(&campaign->place), campaign->seed, run->number, run->kind->name);
}

/* Everything that is held against an end. Returns whether the fault had an effect. */
static bool
judge(const struct campaign *campaign, const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES])
{
    char left[1024];
    bool hit = run->kind->judge(run, job, why);
    find_wrong_averages(run, job, why);
    /* A process loses its environment before its descriptors are closed. */
    do
        leftovers_find(job->place, job->mark, job->folder, run->kind->sweeps, left, sizeof(left));
    while (left[0] != '\0' && job_now_ns() < run->gone_ns + (int64_t)(2 * slowness() * NS) && usleep(5000) == 0);
    if (left[0] != '\0')
        printable_append(why, KINDS_WHY_BYTES, "left behind: %s", left);
    if (run->kind->sweeps)
        sweep(campaign, job, why);
    return hit;
}

static void
make_run(struct campaign *campaign, struct run *run)
{
    static struct job job;
    char text[ORDER_BYTES], folder[256], why[KINDS_WHY_BYTES] = "", description[200];
    struct job_order order = {.place = &campaign->place,
                              .folder = folder,
                              .link = run->kind->link,
                              .closed_output = run->kind->closed_output,
                              .small_pipe = run->kind->small_pipe};
    snprintf(folder, sizeof(folder), "%s/%u", campaign->folder, run->number);
    make_order(campaign, run, &order, text);
    int promised_s = run_limit_s(run, &campaign->place);
    double limit_s = promised_s * slowness(), run_limit_s = 60.0 * slowness() + campaign->pause_s;
    job_start(&job, &order, run->ranks);
    if (run->kind->inject != NULL)
        run->kind->inject(run, &job);
    else if (run->kind == &kind_none)
        watch(campaign, &job, run_limit_s);
    bool ended = await_end(run, &job, run->fault_ns != 0 ? limit_s : run_limit_s);
    if (campaign->place.restore != NULL && system(campaign->place.restore) != 0)
        printable_append(why, sizeof(why), "the hosts cannot be joined again; ");
    if (run->kind->arguments != NULL && run->kind->inject == NULL)
        run->fault_ns = job.records[run->target].hit_ns;

    double seconds = run->fault_ns != 0 ? (double)(run->gone_ns - run->fault_ns) * 1e-9 : 0.0;
    bool hit = ended && judge(campaign, run, &job, why);
    if (!ended)
        printable_append(why, sizeof(why), "it does not end");
    else if (hit && seconds > limit_s)
        printable_append(why, sizeof(why), "it ended after %.3f s only", seconds);
    describe(run, description, sizeof(description));
    bool failed = why[0] != '\0';
    bool late = hit && seconds > promised_s;
    if (failed || late || campaign->verbose)
        printf("%s %u %s: %s; %s, exit code %d after %.3f s\n", failed ? "not ok" : "ok", run->number, run->kind->name,
               description, hit ? "hit" : "no effect", job.exit_code, seconds);
    if (failed)
        tell_failure(campaign, run, &job, why);
    fflush(stdout);

    long which = run->kind - kinds;
    if (run->kind != &kind_none) {
        ++campaign->made[which];
        if (hit)
            campaign->seconds[which][campaign->hit[which]++] = seconds;
        campaign->late += late;
    }
    campaign->failures += failed;
    job_release(&job);
    leftovers_remove_folder(folder);
}

/* ---- all runs ---- */

COMPARES(compare_seconds, double, (*a > *b) - (*a < *b))

/* The table, and whether enough of the faults had an effect. */
static void
summarise(struct campaign *campaign)
{
    unsigned made = 0, hit = 0;
    printf("%-10s %-38s %6s %6s %10s %10s %9s\n", "kind", "", "runs", "hit", "median s", "worst s", "promised");
    for (int k = 0; k < kind_count; ++k) {
        unsigned count = campaign->hit[k];
        double *seconds = campaign->seconds[k];
        made += campaign->made[k];
        hit += count;
        if (campaign->made[k] == 0)
            continue;
        qsort(seconds, count, sizeof(*seconds), compare_seconds);
        printf("%-10s %-38s %6u %6u %10.3f %10.3f %9d\n", kinds[k].name, kinds[k].about, campaign->made[k], count,
               count > 0 ? seconds[count / 2] : 0.0, count > 0 ? seconds[count - 1] : 0.0,
               run_limit_s(&(struct run){.kind = &kinds[k]}, &campaign->place));
    }
    if (made >= 10 && hit * 2 < made) {
        printf("not ok: most faults came when all was over\n");
        ++campaign->failures;
    }
    printf(
        "%s: %u runs with a fault, %u hit, %u failures; %u ended after the promised time (this machine has other work "
        "too)\n",
        campaign->failures == 0 ? "ok" : "not ok", made, hit, campaign->failures, campaign->late);
}

static void
run_all(struct campaign *campaign)
{
    for (int i = 0; i < campaign->runs; ++i) {
        struct run run;
        unsigned number = (unsigned)(campaign->first + i);
        if (i % PACE_EVERY == 0 && campaign->only != &kind_none) {
            run_choose(&run, (uint64_t)campaign->seed, RUNS_AT_MOST + (unsigned)i, &kind_none, &campaign->place,
                       &campaign->pace);
            make_run(campaign, &run);
        }
        run_choose(&run, (uint64_t)campaign->seed, number, campaign->only, &campaign->place, &campaign->pace);
        make_run(campaign, &run);
        if (!campaign->verbose && campaign->runs > 50 && i % 50 == 49)
            printf("%d of %d runs, %u failures\n", i + 1, campaign->runs, campaign->failures);
    }
}

static _Noreturn void
leave_with_usage(FILE *out, int exit_code)
{
    fprintf(out,
            "Usage: bash tests/faults/run.sh BUILD [--place node|mpirun|hosts] [--plan|--by-state|--turns] [--runs N] "
            "[--seed S]\n"
            "       [--first N] [--only KIND] [--pause SECONDS] [--verbose] [--help]\n"
            "--place: on this node, under mpirun, or under mpirun over two simulated hosts. --plan: ranks take turns;\n"
            "--by-state: and average what stays; --turns: by annotations (DDP_TURN_BEGIN).\n"
            "--pause: no fault, but rank 0 spends so long in host code. Kinds:\n");
    for (int k = 0; k < kind_count; ++k)
        fprintf(out, "  %-10s %s\n", kinds[k].name, kinds[k].about);
    exit(exit_code);
}

/* KEEPER:TMPDIR */
static bool
add_host(struct place *place, const char *text)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL || place->host_count == PLACE_HOSTS_AT_MOST)
        return false;
    place->hosts[place->host_count++] = (struct place_host){.keeper = atoi(text), .tmp = colon + 1};
    return true;
}

/* Takes an option, and the word after it, which is its value if it has one. Returns how many words these are. */
static int
take_option(struct campaign *campaign, const char *name, const char *value)
{
    struct place *place = &campaign->place;
    const char *kind = NULL, *host = NULL;
    bool help = false;
    const struct {
        const char *name;
        bool *given;
        int *number;
        const char **text;
    } options[] = {{"--verbose", .given = &campaign->verbose},
                   {"--by-state", .given = &place->by_state},
                   {"--turns", .given = &place->by_regions},
                   {"--help", .given = &help},
                   {"--runs", .number = &campaign->runs},
                   {"--seed", .number = &campaign->seed},
                   {"--first", .number = &campaign->first},
                   {"--pause", .number = &campaign->pause_s},
                   {"--ranks", .number = &place->ranks},
                   {"--only", .text = &kind},
                   {"--host", .text = &host},
                   {"--prefix", .text = &place->prefix},
                   {"--cut", .text = &place->cut},
                   {"--restore", .text = &place->restore},
                   {"--plan", .text = &place->plan}};
    size_t i = 0, count = sizeof(options) / sizeof(options[0]);
    while (i < count && strcmp(options[i].name, name) != 0)
        ++i;
    if (i == count || (options[i].given == NULL && value == NULL))
        leave_with_usage(stderr, 2);
    if (options[i].given != NULL)
        *options[i].given = true;
    if (options[i].number != NULL)
        *options[i].number = atoi(value);
    if (options[i].text != NULL)
        *options[i].text = value;
    if (help)
        leave_with_usage(stdout, 0);
    if ((host != NULL && !add_host(place, host)) || (kind != NULL && (campaign->only = kind_named(kind)) == NULL))
        leave_with_usage(stderr, 2);
    return options[i].given != NULL ? 1 : 2;
}

static void
parse(struct campaign *campaign, int argc, char **argv)
{
    struct place *place = &campaign->place;
    int i = 1;
    while (i < argc && argv[i][0] == '-')
        i += take_option(campaign, argv[i], argv[i + 1]);
    if (argc - i != 2 || campaign->runs <= 0 || campaign->runs > RUNS_AT_MOST)
        leave_with_usage(stderr, 2);
    place->where = place->host_count > 0 ? ON_HOSTS : place->prefix != NULL ? UNDER_MPIRUN : ON_NODE;
    campaign->build = argv[i];
    snprintf(campaign->folder, sizeof(campaign->folder), "%s", argv[i + 1]);
    if (campaign->pause_s > 0)
        campaign->only = &kind_none;
}

/* Arguments: options, the build folder, an empty folder. */
int
main(int argc, char **argv)
{
    static struct campaign campaign = {.runs = 20, .seed = 3, .pace = {NS / 4, NS / 1000, NS / 20}};
    parse(&campaign, argc, argv);
    snprintf(campaign.ddprun, sizeof(campaign.ddprun), "%s/bin/ddprun", campaign.build);
    snprintf(campaign.trainer, sizeof(campaign.trainer), "%s/tests/faults/trainer", campaign.build);
    for (int k = 0; k < kind_count; ++k)
        campaign.seconds[k] = calloc((size_t)campaign.runs, sizeof(double));
    if (!leftovers_isolate(campaign.place.where != ON_HOSTS))
        printf("sockets and shared memory are not looked at: this system allows no namespaces for the campaign\n");
    run_all(&campaign);
    summarise(&campaign);
    for (int k = 0; k < kind_count; ++k)
        free(campaign.seconds[k]);
    return campaign.failures != 0;
}
