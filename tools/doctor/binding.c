/*
 * binding.c - the doctor's look at processors: which of them there are, and which the ranks of a job would get.
 *
 * Decided as for a job (placement.h), in a child, because that asks NVML.
 */
#include "launcher/common/xcalloc.h"
#include "launcher/start/child.h"
#include "launcher/start/placement.h"
#include "tools/doctor/examine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_S = 60, MOST_SHOWN = 8 };

/* In the child: one line for people. Exit code 2: it is an error, "what; what to do". */
static int
decide(void *context)
{
    const struct examination *examination = context;
    struct device_inventory inventory = {.softgpu = examination->softgpu,
                                         .gpu_count = examination->gpu_count,
                                         .visible_devices = getenv("CUDA_VISIBLE_DEVICES"),
                                         .softgpu_devices = getenv("SOFTGPU_DEVICES")};
    struct device_plan devices;
    struct placement placement;
    struct error error;
    if (!device_plan_make(examination->options, &inventory, &devices, &error)) {
        printf("%s\n", error.text);
        return error.exit_code;
    }
    struct placement_subject subject = {.rank_count = devices.rank_count, .local_size = devices.rank_count};
    if (!placement_make(examination->options, &devices, &subject, &placement, &error)) {
        printf("%s\n", error.text);
        return error.exit_code;
    }
    printf("%s (%s)", placement.what, placement.why);
    for (int rank = 0; rank < placement.rank_count && rank < MOST_SHOWN && placement.ranks[rank].list != NULL; ++rank)
        printf("%s %d: %s", rank == 0 ? "; rank" : ",", rank, placement.ranks[rank].list);
    printf("%s\n", placement.rank_count > MOST_SHOWN ? ", ..." : "");
    return 0;
}

void
examine_binding(struct examination *examination)
{
    cpu_set_t own;
    char end[64];
    int processors = sched_getaffinity(0, sizeof(own), &own) == 0 ? CPU_COUNT(&own) : 0;
    if (examination->gpu_count == 0 && !examination->softgpu)
        return; /* there would be no ranks; said already */
    struct child_result *result = xcalloc(1, sizeof(*result));
    child_call(decide, examination, LIMIT_S, result);
    result->text[strcspn(result->text, "\n")] = '\0';
    if (result->end == CHILD_EXITED && result->code == 0)
        findings_ok(examination->findings, "binding", "%s; ddprun may use %d processors", result->text, processors);
    else if (result->end == CHILD_EXITED)
        findings_say_error(examination->findings, FINDING_PROBLEM, "GPUs for ranks", result->text);
    else
        findings_say(examination->findings, FINDING_WARNING, "binding", "use --bind none",
                     "looking at the machine failed: %s", child_end_text(result, end));
    free(result);
}
