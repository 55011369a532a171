/*
 * written.h - files that several ranks of a run write, or change otherwise, by one name: in a training each rank would
 * replace what the others have written.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_WRITTEN_H
#define DDPRUN_TOOLS_CHECK_COMMAND_WRITTEN_H

#include <stddef.h>

struct written_file {
    char *path; /* absolute */
    int *ranks; /* [rank_count], at least two, ascending */
    int rank_count;
};

struct written {
    struct written_file *files; /* [count], by path */
    size_t count;
};

/* Of `ranks` ranks whose private folders (tools/sandbox/files.h) are in `folder`. What cannot be read is not
 * there, and neither are the byte codes of Python, which it replaces as a whole. */
struct written written_find(const char *folder, int ranks);
void written_free(struct written *written);

#endif
