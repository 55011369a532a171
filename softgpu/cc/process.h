/*
 * process.h - child processes and the private folder for temporary files. One of each at a time.
 *
 * SIGINT, SIGTERM and SIGHUP end the child, remove the folder, and then end softgpu-cc by the same signal.
 */
#ifndef SOFTGPU_CC_PROCESS_H
#define SOFTGPU_CC_PROCESS_H

#include "text.h"

/* Before anything else here. */
void process_begin(void);

/* A path in the private folder (made on first use, mode 0700) for a file of this name; the caller frees it. NULL after
 * a message. */
char *process_temporary(const char *name);

/*
 * Makes `folder`, whose name the caller of softgpu-cc has chosen, the private folder, fills it from standard input, and
 * ends as by SIGTERM when that caller dies. Standard input: for each file "P N", the end of the line, P bytes that are
 * its path in the folder, and N that are its content. False after a message.
 */
bool process_adopt(const char *folder) __attribute__((warn_unused_result));

/* Removes the folder with all in it. Call before every exit. */
void process_end(void);

/*
 * Runs a command and waits for it. `errors`: the file that gets its stderr; NULL: ours. Returns its exit status, 128 +
 * n if signal n ended it, 127 after a message if it cannot be started. If a signal asked softgpu-cc to stop, this does
 * not return.
 */
int process_run(const struct list *command, const char *errors) __attribute__((warn_unused_result));

/* "#$ g++ -c 'a b.cu'", as nvcc --dryrun shows commands, on stderr. */
void process_show(const struct list *command);

/* The same without the sign in front. */
void process_show_words(const struct list *words);

#endif
