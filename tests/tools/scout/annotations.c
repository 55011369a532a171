/*
 * annotations.c RECORDING - of an annotated program: whatever annotation is taken away, halved, or put where nothing is
 * to be annotated, `ddprun scout` names it. One line for each annotation; exit code 1 if any change is not named, or
 * the program itself has a fault.
 */
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/report/lines.h"

static struct scout_log recording;
static struct scout_finding finding;

/* What is said of the annotations as they are now; malloc'ed. */
static char *
said(void)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    struct sites *sites = sites_open(&recording);
    annotated_print(out, &recording, &finding, sites);
    sites_close(sites);
    fclose(out);
    return text;
}

/* Whether a line that begins with `begin` has both `a` and `b`, and nothing else is said of tensors. */
static bool
names(const char *begin, const char *a, const char *b)
{
    OWNED char *text = said();
    unsigned found = 0, others = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        bool is_named = strncmp(line, begin, strlen(begin)) == 0 && strstr(line, a) != NULL && strstr(line, b) != NULL;
        found += is_named;
        others += !is_named && line[0] != '\0';
    }
    return found == 1 && others == 0;
}

static bool
is_of_tensor(const struct scout_annotation *annotation)
{
    return annotation->says == SCOUT_SAYS_PARAMETER || annotation->says == SCOUT_SAYS_GRADIENT;
}

/* Memory that is neither parameter nor gradient: the optimizer's state, or data. SCOUT_NONE: there is none. */
static uint32_t
other_memory(void)
{
    uint32_t i = 0;
    while (i < recording.alloc_count &&
           ANY(it, finding.tensors, finding.tensor_count, it->alloc == i && it->role <= ROLE_GRADIENT))
        ++i;
    return i < recording.alloc_count ? i : SCOUT_NONE;
}

static unsigned
report(bool named, const char *what, const struct scout_annotation *annotation)
{
    printf("%s - %s, %s\n", named ? "ok" : "not ok", annotation->text, what);
    return !named;
}

/* One more, with another's text and bytes, in memory that is neither. */
static bool
is_named_elsewhere(const struct scout_annotation *like)
{
    struct scout_annotation *old = recording.annotations;
    OWNED struct scout_annotation *more = xcalloc(recording.annotation_count + 1, sizeof(*more));
    memcpy(more, old, recording.annotation_count * sizeof(*more));
    more[recording.annotation_count] = *like;
    more[recording.annotation_count].alloc = other_memory();
    more[recording.annotation_count].offset = 0;
    recording.annotations = more;
    recording.annotation_count += 1;
    bool named = names("superfluous: ", like->text, "bytes are not a ");
    recording.annotation_count -= 1;
    recording.annotations = old;
    return named;
}

/* Each change of one annotation. */
static unsigned
change(struct scout_annotation *annotation)
{
    struct scout_annotation kept = *annotation;
    char memory[64], place[256];
    struct sites *sites = sites_open(&recording);
    const char *begin =
        kept.says == SCOUT_SAYS_PARAMETER ? "missing: DDP_PARAMETER for " : "missing: DDP_GRADIENT for ";
    (void)sites_text(sites, recording.allocs[kept.alloc].site, place, sizeof(place));
    sites_close(sites);
    annotation->says = 0;
    unsigned failures = report(names(begin, place, " elements (float32)"), "taken away", &kept);
    *annotation = kept;
    annotation->bytes -= kept.bytes / 2 / 4 * 4;
    snprintf(memory, sizeof(memory), "%llu of ", (unsigned long long)(kept.bytes / 2 / 4));
    failures += report(names(begin, place, memory), "halved", &kept);
    *annotation = kept;
    failures += report(is_named_elsewhere(&kept), "added elsewhere", &kept);
    return failures;
}

int
main(int argc, char **argv)
{
    const char *why;
    unsigned failures = 0, count = 0;
    if (argc != 2 || !scout_log_open(argv[1], &recording, &why))
        return 2;
    scout_find(&recording, NULL, &finding);
    failures += !finding.found || !names("annotations: ", "", "");
    FOR_EACH_MUTABLE(it, recording.annotations, recording.annotation_count) {
        count += is_of_tensor(it);
        failures += is_of_tensor(it) ? change(it) : 0;
    }
    printf("# %u annotations\n", count);
    scout_finding_free(&finding);
    scout_log_free(&recording);
    return failures > 0 || count == 0;
}
