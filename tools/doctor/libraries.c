/*
 * libraries.c - the doctor's look at NCCL.
 */
#include "launcher/start/child.h"
#include "tools/common/owned.h"
#include "tools/doctor/examine.h"

/* As comm/nccl_versions.h wants it: 2.18. */
enum { LEAST_NCCL = 21800 };

static void
say_no_nccl(struct examination *examination, const char *why)
{
    bool matters = examination->softgpu || examination->needs_gpu || examination->gpu_count > 0 ||
                   examination->options->nccl != NULL;
    findings_say(examination->findings, matters ? FINDING_PROBLEM : FINDING_NOTE, "NCCL",
                 examination->softgpu ? "install the stand-in again (ddprun-softgpu)"
                 : matters            ? "install NCCL 2 (libnccl2), or name its library by --nccl"
                                      : "install NCCL 2 (libnccl2) before programs run on GPUs, or name it by --nccl",
                 "not found: %s", why);
}

/* NCCL_VERSION(X, Y, Z) of nccl.h: 22809 for 2.28.9, and 2708 for 2.7.8. */
static void
judge_nccl(struct examination *examination, int number, const char *path)
{
    int major = number >= 10000 ? number / 10000 : number / 1000;
    int minor = number >= 10000 ? number / 100 % 100 : number / 100 % 10;
    if (number < LEAST_NCCL)
        findings_say(examination->findings, FINDING_PROBLEM, "NCCL", "install a newer one, or name another by --nccl",
                     "%s is %d.%d.%d; 2.18 or newer is needed", path, major, minor, number % 100);
    else
        findings_ok(examination->findings, "NCCL", "%d.%d.%d, %s", major, minor, number % 100, path);
}

void
examine_libraries(struct examination *examination)
{
    OWNED struct child_result *result = xcalloc(1, sizeof(*result));
    OWNED char *name = examination->options->nccl != NULL ? xstrdup(examination->options->nccl)
                       : examination->softgpu && examination->is_installed
                           ? xasprintf("%s/libnccl.so.2", examination->found.softgpu_lib)
                           : xstrdup("libnccl.so.2");
    int number, path = 0;
    char end[64];
    nccl_ask(name, result);
    result->text[strcspn(result->text, "\n")] = '\0';
    if (result->end != CHILD_EXITED || result->code != 0)
        say_no_nccl(examination, child_end_text(result, end));
    else if (sscanf(result->text, "nccl %d %n", &number, &path) < 1 || path == 0)
        say_no_nccl(examination, strncmp(result->text, "none ", 5) == 0 ? result->text + 5 : "no reason was reported");
    else
        judge_nccl(examination, number, result->text + path);
}
