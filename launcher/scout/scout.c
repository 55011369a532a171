/*
 * scout.c - see scout.h.
 */
#include "launcher/scout/scout.h"

#include "base/message.h"
#include "base/protocol.h"
#include "base/scout/log.h"
#include "base/scout/run.h"
#include "launcher/common/close_stdout.h"
#include "launcher/common/inner_run.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/whole_file.h"
#include "launcher/scout/analysis/finding.h"
#include "launcher/scout/prove.h"
#include "launcher/scout/report/plan.h"
#include "launcher/scout/report/print.h"
#include "launcher/scout/run.h"
#include "launcher/scout/show.h"
#include "launcher/start/job_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_STEPS = 3, MOST_STEPS = 100, DEFAULT_TIMEOUT_S = 900, MOST_TIMEOUT_S = 1000000 };

struct request {
    unsigned steps, timeout_s;
    const char *json;
    const char *record; /* the recording is kept there; NULL: it is removed */
    bool prove;
    char *const *program;
    bool help;
};

/* ---- the command line ---- */

static void
print_help(void)
{
    fputs("Usage: ddprun [options] scout [options] program [arguments...]\n\n"
          "Runs the program alone, and makes each of its launches again with other inputs, to\n"
          "see what depends on what. Nothing of the program has to be annotated. The program's\n"
          "own results stay as they are.\n\n"
          "  --steps M                 end the program after M periods, 3 to 100 (default 3); 0: let it go on to its "
          "end\n"
          "  --timeout SECONDS         end the program if the recording takes longer (default 900)\n"
          "  --prove                   then train two ranks by what was found, with different data, and compare them\n"
          "  --json FILE               write what was found to FILE, also if it is refused\n"
          "  --record FILE             keep the recording in FILE\n"
          "  --help                    print this\n\n"
          "Exit codes: 0: found; 1: the program cannot be followed, no gradients are found, or\n"
          "a proof has failed, with the reason; 2: wrong options.\n",
          stdout);
}

/* The value of an option: behind '=' or the next word. NULL: the word is another option. */
static const char *
value_of(const char *name, char *const **words)
{
    size_t length = strlen(name);
    const char *word = **words;
    if (strncmp(word, name, length) != 0 || (word[length] != '\0' && word[length] != '='))
        return NULL;
    if (word[length] == '=')
        return word + length + 1;
    if ((*words)[1] == NULL)
        return "";
    ++*words;
    return **words;
}

static bool
take_number(const char *option, const char *value, unsigned least, unsigned most, unsigned *number_p,
            struct error *error)
{
    char *end;
    unsigned long number = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || ((number < least || number > most) && number != 0) ||
        (number == 0 && least == 1))
        return error_set(error, DDPRUN_EXIT_USAGE, "'%s' is not a number from %u to %u, in %s; see ddprun scout --help",
                         value, least, most, option);
    *number_p = (unsigned)number;
    return true;
}

/* Options of its own end at the program, as ddprun's do. */
static bool
parse(char *const *words, struct request *request, struct error *error)
{
    *request = (struct request){.steps = DEFAULT_STEPS, .timeout_s = DEFAULT_TIMEOUT_S};
    for (++words; *words != NULL && (*words)[0] == '-'; ++words) {
        const char *value;
        if (strcmp(*words, "--") == 0) {
            ++words;
            break;
        }
        if (strcmp(*words, "--help") == 0) {
            request->help = true;
            return true;
        }
        if (strcmp(*words, "--prove") == 0) {
            request->prove = true;
        } else if ((value = value_of("--steps", &words)) != NULL) {
            if (!take_number("--steps", value, DEFAULT_STEPS, MOST_STEPS, &request->steps, error))
                return false;
        } else if ((value = value_of("--timeout", &words)) != NULL) {
            if (!take_number("--timeout", value, 1, MOST_TIMEOUT_S, &request->timeout_s, error))
                return false;
        } else if ((value = value_of("--json", &words)) != NULL) {
            request->json = value;
            if (value[0] == '\0')
                return error_set(error, DDPRUN_EXIT_USAGE, "option --json wants a file; see ddprun scout --help");
        } else if ((value = value_of("--record", &words)) != NULL) {
            request->record = value;
            if (value[0] == '\0')
                return error_set(error, DDPRUN_EXIT_USAGE, "option --record wants a file; see ddprun scout --help");
        } else {
            return error_set(error, DDPRUN_EXIT_USAGE, "unknown option %s of scout; see ddprun scout --help", *words);
        }
    }
    if (*words == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "no program given, after scout; write for example: ddprun scout ./train (see ddprun scout "
                         "--help)");
    request->program = words;
    return true;
}

static bool
refuse(const struct options *options, const struct request *request, struct error *error)
{
    if (options->rank_count > 1)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "-n %d and scout contradict each other: the program is scouted in one process; leave -n out",
                         options->rank_count);
    if (options->hosts != NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "--hosts and scout contradict each other; leave one out");
    if (options->dry_run)
        return error_set(error, DDPRUN_EXIT_USAGE, "--dry-run and scout contradict each other; leave one out");
    return (request->json == NULL || whole_file_check(request->json, "--json", error)) &&
           (request->record == NULL || whole_file_check(request->record, "--record", error));
}

/* ---- the run ---- */

static bool
is_proved(const struct scout_proofs *proofs, struct error *error)
{
    const struct proof *failed = proofs->ranks.end == PROOF_FAILED    ? &proofs->ranks
                                 : proofs->halves.end == PROOF_FAILED ? &proofs->halves
                                                                      : NULL;
    return failed == NULL || error_set(error, DDPRUN_EXIT_FAILURE, "what was found is not proved: %s", failed->text);
}

/* Finds roles, prints them, proves them if that is asked for, and writes the plan, also that of a program that is
 * refused. */
static bool
report(const struct scout_order *order, const struct request *request, const struct scout_log *log, struct error *error)
{
    struct scout_finding finding;
    struct scout_proofs proofs = {0};
    scout_find(log, &finding);
    bool ok = finding.found || error_set(error, DDPRUN_EXIT_FAILURE, "no gradients found: %s", finding.reason);
    if (ok)
        scout_print(stdout, log, &finding);
    if (ok && request->prove)
        ok = scout_prove(order, log, &finding, &proofs, error);
    proofs_print(stdout, &proofs);
    ok = ok && is_proved(&proofs, error);
    if (request->json != NULL)
        ok = plan_write(request->json, log, &finding, &proofs, error) && ok;
    scout_finding_free(&finding);
    return ok;
}

static bool
look(const struct scout_outcome *outcome, const struct scout_order *order, const struct request *request,
     struct error *error)
{
    struct scout_log log;
    const char *why;
    if (!scout_log_open(outcome->log, &log, &why))
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot read what was recorded: %s", why);
    bool ok = log.has_end || outcome->refused ||
              error_set(error, DDPRUN_EXIT_FAILURE, "the recording has no end; make room in TMPDIR");
    if (ok && order->options->verbose)
        scout_show(stdout, &log, outcome->period);
    ok = ok && report(order, request, &log, error);
    scout_log_free(&log);
    return ok;
}

/* The recorder has written into the job's folder. Only the user may read what is kept. */
static bool
keep_recording(const char *from, const char *to, struct error *error)
{
    struct stat file;
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && fstat(fd, &file) == 0;
    size_t bytes = ok ? (size_t)file.st_size : 0;
    void *all = bytes > 0 ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    ok = ok && all != MAP_FAILED;
    mode_t mask = umask(077);
    ok = ok && whole_file_write_bytes(to, all, bytes);
    int cause = errno;
    umask(mask);
    if (bytes > 0 && all != MAP_FAILED)
        munmap(all, bytes);
    if (fd >= 0)
        close(fd);
    return ok || error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s, in --record: %s", to, strerror(cause));
}

int
scout_command(const struct options *options)
{
    struct request request;
    struct error error;
    struct job_folder folder = {.fd = -1};
    struct scout_outcome outcome = {0};
    struct scout_order order = {.options = options};
    bool ok = parse(options->program, &request, &error);
    if (ok && request.help) {
        print_help();
        return close_stdout(stdout);
    }
    inner_run_block_signals(&order.old_mask);
    if (ok && refuse(options, &request, &error) && job_folder_make(&folder, &error)) {
        order.program = request.program;
        order.folder = folder.path;
        order.steps = request.steps;
        order.timeout_s = request.timeout_s;
        ok = scout_run_make(&order, &outcome, &error) &&
             (request.record == NULL || outcome.stage == SCOUT_STAGE_NONE ||
              keep_recording(outcome.log, request.record, &error)) &&
             scout_run_judge(&order, &outcome, &error) && look(&outcome, &order, &request, &error);
        job_folder_remove(&folder);
    } else {
        ok = false;
    }
    free(outcome.log);
    if (!ok) {
        message_line("%s", error.text);
        return error.exit_code;
    }
    return close_stdout(stdout);
}
