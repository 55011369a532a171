/* rank_describe.c - see verdict.h. */
#include "launcher/watch/verdict.h"

#include "base/protocol.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 256 };

double
rank_seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

const char *
rank_describe_place(const struct rank_view *view, char text[RANK_WORDS_BYTES])
{
    char process[32] = "";
    if (view->pid > 0)
        snprintf(process, sizeof(process), "%sprocess %d", view->host[0] != '\0' ? ", " : "", view->pid);
    bool any = view->host[0] != '\0' || process[0] != '\0';
    snprintf(text, RANK_WORDS_BYTES, "%s%s%s%s%s%s%s", any || view->gpu[0] != '\0' ? " (" : "",
             view->host[0] != '\0' ? "host " : "", view->host, process, any && view->gpu[0] != '\0' ? ", " : "",
             view->gpu, any || view->gpu[0] != '\0' ? ")" : "");
    return text;
}

const char *
rank_describe_step(const struct rank_view *view, char text[RANK_STEP_BYTES])
{
    if (view->step > 0)
        snprintf(text, RANK_STEP_BYTES, " after step %" PRIu64, view->step);
    else
        snprintf(text, RANK_STEP_BYTES, " before its first step");
    return text;
}

const char *
rank_describe_wait(const struct rank_view *view, char text[RANK_WORDS_BYTES])
{
    if (view->wait == RANK_WAIT_DEVICE || view->wait == RANK_WAIT_NONE)
        return "waits for no other rank";
    snprintf(text, RANK_WORDS_BYTES, "waits %s %s (%.1f s)", view->wait == RANK_WAIT_EXCHANGE ? "at" : "for",
             view->wait_for, rank_seconds(view->wait_ns));
    return text;
}

bool
rank_wait_is_over(const struct rank_view *view)
{
    return view->wait != RANK_WAIT_EXCHANGE && view->wait_step > 0 && view->wait_step <= view->step &&
           view->wait_ns < UINT64_C(1000000000);
}

/* A call that ends when the device has done what was enqueued. */
static bool
is_for_device(const struct rank_view *view)
{
    return view->in_call && (strstr(view->call, "Synchronize") != NULL || strncmp(view->call, "cuMemcpy", 8) == 0);
}

const char *
rank_describe_activity(const struct rank_view *view, char text[RANK_WORDS_BYTES])
{
    char kernel[TEXT_BYTES] = "";
    if (view->kernel[0] != '\0')
        snprintf(kernel, sizeof(kernel), "; last kernel launched: `%.128s`", view->kernel);
    double since = rank_seconds(view->call_ns);
    if (view->stopped)
        snprintf(text, RANK_WORDS_BYTES, "it is stopped (SIGSTOP, or a debugger); `kill -CONT %d` lets it continue",
                 view->pid);
    else if (view->exiting)
        snprintf(text, RANK_WORDS_BYTES, "its program has ended without error, and runs its exit handlers");
    else if (view->stage < RANK_STAGE_RANK)
        snprintf(text, RANK_WORDS_BYTES, "it has not used CUDA yet");
    else if (view->wait == RANK_WAIT_DEVICE && !rank_wait_is_over(view))
        snprintf(text, RANK_WORDS_BYTES, "its GPU has not finished the work before %s%s", view->wait_for, kernel);
    else if (view->wait == RANK_WAIT_NONE && is_for_device(view))
        snprintf(text, RANK_WORDS_BYTES, "it has waited in %s for its GPU for %.1f s%s", view->call, since, kernel);
    else if (view->in_call)
        snprintf(text, RANK_WORDS_BYTES, "it has been in %s for %.1f s%s", view->call, since, kernel);
    else if (view->call[0] != '\0')
        snprintf(text, RANK_WORDS_BYTES, "it runs or waits in host code; its last CUDA call was %s, %.1f s ago",
                 view->call, since);
    else
        snprintf(text, RANK_WORDS_BYTES, "it runs or waits in host code");
    return text;
}

bool
rank_is_on_device(const struct rank_view *view)
{
    return view->wait == RANK_WAIT_DEVICE || (view->wait == RANK_WAIT_NONE && is_for_device(view));
}
