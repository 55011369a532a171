/*
 * readings.c - where the program has read the date or random bytes, by the rows of its ranks (evidence.h).
 */
#include "tools/check/command/evidence.h"

#include "tools/common/each.h"

static enum check_reading
kind_of(const struct check_row *row)
{
    static const char *const random[] = {"/dev/", "getrandom", "getentropy", "arc4random", "std::random_device"};
    return ANY(it, random, sizeof(random) / sizeof(random[0]), strncmp(row->text, *it, strlen(*it)) == 0)
               ? CHECK_READS_RANDOM
               : CHECK_READS_DATE;
}

/* "`time` (train.cu:12)". Places without a line in a source file, as those of a shell that starts the program, count
 * where there are no others. */
static void
name_places(struct check_evidence *evidence, const struct check_rows *rows, bool with_line)
{
    EACH_ROW(row, rows, CHECK_ROW_READING) {
        char place[80], frame[600], name[160];
        char *text = evidence->reading_places;
        size_t call = strcspn(row->text, " "), length = strlen(text);
        evidence->readings |= kind_of(row);
        snprintf(frame, sizeof(frame), "%s %llx", row->text + call + 1, (unsigned long long)row->value);
        snprintf(name, sizeof(name), "`%.*s` (%s)", (int)call, row->text, place_name(frame, place, sizeof(place)));
        if ((strchr(place, ':') != NULL) == with_line && strstr(text, name) == NULL &&
            length + strlen(name) + 2 < sizeof(evidence->reading_places))
            snprintf(text + length, sizeof(evidence->reading_places) - length, "%s%s", length > 0 ? ", " : "", name);
    }
}

void
readings_describe(struct check_evidence *evidence)
{
    evidence->reading_places[0] = '\0';
    for (int pass = 0; pass < 2 && evidence->reading_places[0] == '\0'; ++pass) {
        name_places(evidence, &evidence->alone, pass == 0);
        for (int r = 0; r < evidence->ranks; ++r)
            name_places(evidence, &evidence->ranked[r], pass == 0);
    }
}
